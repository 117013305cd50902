//! The storage of a world: the real log and the real streams, each on its own simulated disk, without threads.
//! All their jobs are done in one round and answered at once.

use catalog::ids::Origin;
use node::facts::Restored;
use node::recovery::{Disks, Purpose, Recovered, recover};
use node::shard::Shard;
use wal::{ChunkJob, ChunksRead, Handover, Log, Options, PackOptions, StreamJob, StreamReader, Streams};
use wal_testing::{Crash, SimDisk};

/// The disks, and the components that use them while the process runs.
pub(crate) struct Storage {
    log_disk: SimDisk,
    stream_disk: SimDisk,
    /// The number of starts.
    boots: u32,
    running: Option<Running>,
}

struct Running {
    log: Log<SimDisk>,
    streams: Streams<SimDisk>,
    reader: StreamReader<SimDisk>,
    to_log: Vec<Handover>,
    to_streams: Vec<StreamJob>,
    to_reader: Vec<ChunkJob>,
}

impl Storage {
    pub(crate) fn new() -> Self {
        Self { log_disk: SimDisk::new(1), stream_disk: SimDisk::new(2), running: None, boots: 0 }
    }

    /// Recovers the stored state.
    pub(crate) fn start(&mut self) -> Restored {
        let disks = Disks {
            log: self.log_disk.clone(),
            packs: &mut |_| Ok(Some(SimDisk::new(3))),
            streams: &mut |_| Ok(Some(self.stream_disk.clone())),
            unclaimed: &mut |_| Ok(None),
            log_options: Options { file_bytes: 1 << 20, seed: Some(1), ..Options::default() },
            pack_options: PackOptions::default(),
            keep_damaged: &mut |_, _| Ok(()),
            origin: Origin { boot: self.boots, ..Origin::default() },
            in_cluster: None,
            mutation: None,
        };
        self.boots += 1;
        // The shards make the first users.
        let recovered = recover(disks, Purpose::Offline).expect("disks that only crashed can be recovered");
        let Recovered { restored, log, streams, .. } = recovered;
        let reader = StreamReader::new(self.stream_disk.clone());
        self.running = Some(Running {
            log,
            streams,
            reader,
            to_log: Vec::new(),
            to_streams: Vec::new(),
            to_reader: Vec::new(),
        });
        restored
    }

    /// Kills the process. Data that was only handed over is lost; data that was written remains.
    pub(crate) fn crash(&mut self) {
        self.running = None;
        self.log_disk = self.log_disk.crash(Crash::Process);
        self.stream_disk = self.stream_disk.crash(Crash::Process);
    }

    /// Takes the jobs that a shard hands over after a turn.
    pub(crate) fn take(&mut self, shard: &mut Shard) {
        let Some(running) = &mut self.running else { return };
        running.to_log.extend(shard.poll_handover());
        running.to_streams.extend(shard.poll_stream_jobs());
        running.to_reader.extend(shard.poll_chunk_jobs());
    }

    /// Does all jobs, and answers the shards. Returns false if there were none. Call it after all output was
    /// written to the clients: answers are handled before a turn.
    pub(crate) fn answer(&mut self, shards: &mut [Shard]) -> bool {
        let Some(running) = &mut self.running else { return false };
        let moved =
            !(running.to_log.is_empty() && running.to_streams.is_empty() && running.to_reader.is_empty());
        let mut done = Vec::new();
        if !running.to_log.is_empty() {
            running.log.append(&mut running.to_log, &mut done);
            running.log.sync(&mut done);
        }
        done.drain(..).for_each(|completion| shards[completion.shard as usize].handle_logged(completion));
        let mut answers = Vec::new();
        for job in running.to_streams.drain(..) {
            if let Some(sync) = running.streams.handle(job, &mut answers) {
                running.streams.end_sync(sync.run(), &mut answers);
            }
        }
        answers.drain(..).for_each(|answer| shards[answer.shard() as usize].handle_stream_answer(answer));
        for job in running.to_reader.drain(..) {
            let ChunkJob { shard, ticket, .. } = job;
            let result = running.reader.read(&job);
            shards[shard as usize].handle_chunks(ChunksRead { shard, ticket, result });
        }
        moved
    }
}
