//! One rank as another sees it: the count of messages in both directions, and when it last was heard.

/// How often ranks say that they are here, and for how long one may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Liveness {
    /// A rank that has said nothing for so long says that it is still here.
    pub ping_nanos: u64,
    /// A rank that was silent for so long is lost; none: silence is no sign.
    pub silence_nanos: Option<u64>,
    /// How long a rank that was cut off waits for the verdict.
    pub grace_nanos: u64,
}

impl Default for Liveness {
    /// A ping each second, and silence is no sign.
    fn default() -> Self {
        Liveness {
            ping_nanos: 1_000_000_000,
            silence_nanos: None,
            grace_nanos: 5_000_000_000,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    sent: u64,
    expected: u64,
    spoke: u64,
    heard: u64,
}

impl Link {
    pub(super) fn new(now: u64) -> Self {
        Link {
            sent: 0,
            expected: 0,
            spoke: now,
            heard: now,
        }
    }

    /// The number of the next message to it.
    pub(super) fn speak(&mut self, now: u64) -> u64 {
        self.spoke = now;
        self.sent += 1;
        self.sent - 1
    }

    /// Whether a message with that number is the next one from it.
    pub(super) fn hear(&mut self, now: u64, sequence: u64) -> Result<(), String> {
        self.heard = now;
        if sequence == self.expected {
            self.expected += 1;
            return Ok(());
        }
        Err(format!(
            "message {sequence} arrived where message {} was to come",
            self.expected
        ))
    }

    pub(super) fn owes_a_ping(&self, now: u64, liveness: &Liveness) -> bool {
        now.saturating_sub(self.spoke) >= liveness.ping_nanos
    }

    pub(super) fn is_silent(&self, now: u64, liveness: &Liveness) -> bool {
        liveness
            .silence_nanos
            .is_some_and(|limit| now.saturating_sub(self.heard) >= limit)
    }

    /// Time that the listener itself was away does not count.
    pub(super) fn excuse(&mut self, away: u64) {
        self.heard = self.heard.saturating_add(away);
    }
}

/// When a machine looks at its links again, and for how long its host was away in between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rounds {
    last: u64,
    due: u64,
}

impl Rounds {
    pub(super) fn new(now: u64) -> Self {
        Rounds { last: now, due: now }
    }

    /// None while it is not yet time; else the time that the host was away.
    pub(super) fn turn(&mut self, now: u64, liveness: &Liveness) -> Option<u64> {
        let since = now.saturating_sub(self.last);
        self.last = now;
        let away = if since > liveness.ping_nanos { since } else { 0 };
        if now < self.due {
            return None;
        }
        self.due = now.saturating_add(liveness.ping_nanos / 4);
        Some(away)
    }
}
