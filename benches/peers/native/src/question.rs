//! A question: the work, and the case's arguments.

use serde_json::Value;

/// A label; strings give their characters.
pub(crate) type Label = u32;

/// A question.
pub(crate) struct Question {
    /// Name of the work.
    pub(crate) work: String,
    arguments: Value,
}

impl Question {
    /// Reads a line.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let work = value["work"].as_str().ok_or("no work")?.to_owned();
        Ok(Self {
            work,
            arguments: value["arguments"].take(),
        })
    }

    /// A word.
    pub(crate) fn word(&self, name: &str) -> Option<&str> {
        self.arguments[name].as_str()
    }

    /// A number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.arguments[name].as_f64()
    }

    /// Whether something is asked for.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.arguments[name].as_bool().unwrap_or(false)
    }

    /// A list of lists of whole numbers.
    pub(crate) fn lists(&self, name: &str) -> Result<Vec<Vec<usize>>, String> {
        serde_json::from_value(self.arguments[name].clone()).map_err(|error| format!("{name}: {error}"))
    }

    /// Labels of two operands and of the result.
    pub(crate) fn labels(&self) -> Result<[Vec<Label>; 3], String> {
        let text = self.word("subscripts").ok_or("no subscripts")?;
        let (operands, result) = text.split_once("->").ok_or("no result")?;
        let (left, right) = operands.split_once(',').ok_or("not two operands")?;
        Ok([left, right, result].map(|part| part.chars().map(Label::from).collect()))
    }
}
