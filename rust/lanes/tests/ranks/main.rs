//! Maps across ranks on the fake network: outcomes, orders of events, faults, and the decoder under attack.

mod decoder;
mod faults;
mod maps;
mod orders;
mod world;
