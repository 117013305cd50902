mod changes;
mod rng;
mod sim;
mod simulated;
mod wire;
