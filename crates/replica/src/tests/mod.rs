mod changes;
mod sim;
mod simulated;
mod wire;
