mod machine;
mod scenes;
mod seeds;
mod sim;
mod words;
