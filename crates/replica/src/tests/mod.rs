mod rng;
mod sim;
mod simulated;
mod wire;
