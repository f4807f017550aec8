//! What carries messages between ranks.

use super::message::Message;

/// Carries messages. What one rank sends to another arrives in the order in which it was sent, or not at all; nothing
/// is promised about messages of different pairs.
pub trait Transport {
    /// What is carried, and what the machines do not look into.
    type Payload;

    /// Starts to send a message. Never waits, and never fails: what cannot be delivered is found out by the one who
    /// waits for it. `sequence` counts the messages from this rank to that one, from 0.
    fn send(&mut self, to: usize, sequence: u64, message: Message<Self::Payload>);
}
