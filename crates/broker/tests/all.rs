//! Replays the corpus, and checks which words the components know. One binary, because linking one for each file takes minutes.

mod corpus;
mod rooms;
