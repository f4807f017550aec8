//! Public fault reports as inputs with right answers, and what plans promise.

mod arrays;
mod constants;
mod labels;
mod networks;
mod panels;
mod refusals;
mod report;
mod slicing;
mod threads;
mod values;
