//! A disk that fills up, on a small file system in memory: deliveries are answered 503 with a time to come again, nothing
//! acknowledged is lost, and the service returns by itself when there is room. Needs the right to mount.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::scale;
use crate::load::Load;
use crate::server::Server;

/// A mounted file system of its own; unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    /// So many MiB; why not, if it can't be mounted.
    fn mount(mib: usize) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tollgate-test"]).arg(folder.path());
        let mounted = mount.output().map_err(|error| error.to_string())?;
        if mounted.status.success() {
            Ok(Self(folder))
        } else {
            Err(String::from_utf8_lossy(&mounted.stderr).into_owned())
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn free_mib(&self) -> u64 {
        fs4::available_space(self.path()).unwrap() >> 20
    }

    /// The same while deliveries come in, so that there is something to write that is acknowledged already.
    fn fill_under_load(&self, leave_mib: u64, server: &Server, load: &Load, done: &mut usize) -> std::path::PathBuf {
        let next = AtomicUsize::new(*done);
        let filler = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    // Each its own, so that every one of them is answered or refused.
                    loop {
                        let index = next.fetch_add(1, Ordering::SeqCst);
                        let answer = load.deliver(server.address(), index);
                        if answer.is_none_or(|answer| answer.status != 200) || index + 10 > load.events.len() {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(100));
            self.fill(leave_mib)
        });
        *done = next.into_inner();
        filler
    }

    /// Somebody else takes the room, down to so many MiB that stay free.
    fn fill(&self, leave_mib: u64) -> std::path::PathBuf {
        let path = self.path().join("of-somebody-else");
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        let piece = vec![7; 1 << 20];
        while self.free_mib() > leave_mib && file.write_all(&piece).is_ok() {}
        if leave_mib == 0 {
            // To the last page.
            while file.write_all(&[7; 4096]).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_is_503_and_the_service_returns_by_itself_when_there_is_room() {
    filled(Some(4), "the journal fills what is left");
}

#[test]
fn a_disk_that_somebody_else_fills_to_the_last_byte_is_503_and_the_service_returns_by_itself() {
    filled(None, "somebody else takes all at once");
}

#[test]
fn a_stop_while_it_waits_for_room_is_a_stop_in_order() {
    let disk = match Disk::mount(48) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped, for no file system can be mounted: {}", why.trim()),
    };
    let data = disk.path().join("data");
    let environment = [
        ("TOLLGATE__STORE__SEGMENT_SIZE", "1MiB".to_owned()),
        // So little goes to the view at once that it is written without the redo file, whose want of room is waited for.
        ("TOLLGATE__STORE__OVERLAY_SIZE", "32KiB".to_owned()),
        ("TOLLGATE__TELEMETRY__LEVEL", "error".to_owned()),
    ];
    let server = Server::start(&data, &environment);
    let load = Load::of_payments(4000, 2000);
    let mut done = deliver_some(&server, &load, 0, 20);
    let filler = disk.fill_under_load(0, &server, &load, &mut done);
    // A store that only refuses still shows its metrics; one that has stopped shows nothing.
    let began = Instant::now();
    while server.get("/metrics").is_none_or(|(status, _)| status != 503) {
        assert!(began.elapsed() < Duration::from_secs(60), "the store does not stop");
        // What the view could not write out shows when it is asked next.
        let _ = server.get("/v1/entities");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.terminate();
    assert_eq!(server.exit_code(), Some(0), "it was stopped in order");
    std::fs::remove_file(filler).unwrap();
    let server = Server::start(&data, &environment);
    server.settle();
    println!("stopped while it waited for room: {:?}", load.assert_kept(&server));
}

#[test]
fn a_start_on_a_disk_that_is_full_after_a_kill_waits_for_room_and_loses_nothing() {
    let disk = match Disk::mount(48) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped, for no file system can be mounted: {}", why.trim()),
    };
    let data = disk.path().join("data");
    let environment =
        [("TOLLGATE__STORE__SEGMENT_SIZE", "1MiB".to_owned()), ("TOLLGATE__TELEMETRY__LEVEL", "off".to_owned())];
    let load = Load::of_payments(2000, 1000);
    let mut done = 0;
    // Before there is anything, with what a kill leaves, and with a view that is to be built anew.
    for round in ["nothing is there", "after a kill", "without a view"] {
        if round != "nothing is there" {
            let server = Server::start(&data, &environment);
            done = deliver_some(&server, &load, done, 300);
            server.kill();
        }
        if round == "without a view" {
            std::fs::remove_dir_all(data.join("view")).unwrap();
        }
        let filler = disk.fill(0);
        let mut server = Server::spawn(&data, &environment);
        let code = until_told(&mut server, round);
        // What is left after a kill may be enough to open with.
        assert!(code == "disk_full" || round == "after a kill", "{round}: {code}");
        std::thread::sleep(Duration::from_millis(700));
        assert!(!server.has_ended(), "{round}: the process ended");
        std::fs::remove_file(filler).unwrap();
        server.until_ready();
        done = deliver_some(&server, &load, done, 20);
        server.settle();
        println!("{round}: {code}, then {:?}", load.assert_kept(&server));
        server.terminate();
        assert_eq!(server.exit_code(), Some(0));
    }
    let filler = disk.fill(0);
    let (sound, why) = Server::check(&data);
    assert!(!sound && why.contains("are sound, but the view was not compared") && why.contains("disk_full"), "{why}");
    std::fs::remove_file(filler).unwrap();
    assert_eq!(Server::check(&data), (true, String::new()));
}

/// Waits until a server that has just begun says whether it is ready; answers the code if it is not.
fn until_told(server: &mut Server, what: &str) -> String {
    let began = Instant::now();
    loop {
        if let Some((status, answer)) = server.get("/readyz") {
            return if status == 200 { String::new() } else { answer["code"].as_str().unwrap_or_default().to_owned() };
        }
        assert!(!server.has_ended(), "{what}: the process ended");
        assert!(began.elapsed() < Duration::from_secs(60), "{what}: it does not answer");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The disk is filled under load, stays full for a while, and is given free. What is left is so many MiB above what the
/// journal leaves free, or nothing at all.
fn filled(left_mib: Option<u64>, what: &str) {
    // As large as what is stored in all rounds needs.
    let size_mib = 48 * scale();
    let reserve_mib = u64::try_from(size_mib / 4).unwrap().min(64);
    let leave_mib = left_mib.map_or(0, |left| reserve_mib + left);
    let disk = match Disk::mount(size_mib) {
        Ok(disk) => disk,
        Err(why) => return println!("skipped, for no file system can be mounted: {}", why.trim()),
    };
    let data = disk.path().join("data");
    let environment =
        [("TOLLGATE__STORE__SEGMENT_SIZE", "1MiB".to_owned()), ("TOLLGATE__TELEMETRY__LEVEL", "error".to_owned())];
    let mut server = Server::start(&data, &environment);
    let load = Load::of_payments(4000 * scale(), 2000);
    let mut done = 0;
    for round in 0..2 * scale() {
        done = deliver_some(&server, &load, done, 200);
        let filler = disk.fill_under_load(leave_mib, &server, &load, &mut done);
        let refused = until_refused(&server, &load, &mut done);
        // As long as the view takes to write out what it has in memory: it meets the full disk too.
        std::thread::sleep(Duration::from_millis(1200));
        // Full is full: it stays so, whoever asks, and reading goes on or is refused in good order. For a moment nobody
        // listens: when the store has stopped, and who only refuses takes the address over.
        let mut reads = 0;
        for _ in 0..20 {
            let answer = load.deliver(server.address(), done);
            assert!(answer.as_ref().is_none_or(|answer| answer.status == 503), "{answer:?}");
            let read = server.get("/v1/entities");
            assert!(read.as_ref().is_none_or(|(status, _)| [200, 503].contains(status)), "{what}: {read:?}");
            reads += usize::from(read.is_some());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(reads > 0, "{what}, round {round}: nobody answers");
        assert!(!server.has_ended(), "{what}, round {round}: the process ended");
        std::fs::remove_file(filler).unwrap();
        let began = Instant::now();
        while load.deliver(server.address(), done).is_none_or(|answer| answer.status != 200) {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}, round {round}: it does not come back");
            assert!(!server.has_ended(), "{what}, round {round}: the process ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        println!("{what}, round {round}: refused after {done} events ({refused}), back by itself");
    }
    steady(&server, &load, &mut done);
    server.settle();
    println!("{what}: {:?}", load.assert_kept(&server));
    server.terminate();
    assert_eq!(server.exit_code(), Some(0));
    let (sound, why) = Server::check(&data);
    assert!(sound, "{why}");
}

/// Delivers events until each is acknowledged: a store that begins anew refuses for a moment.
fn deliver_some(server: &Server, load: &Load, from: usize, count: usize) -> usize {
    let began = Instant::now();
    for index in from..from + count {
        while load.deliver(server.address(), index).is_none_or(|answer| answer.status != 200) {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    from + count
}

/// Delivers until nothing is refused for longer than the view takes to write out what it has: what failed while the disk
/// was full may show only then.
fn steady(server: &Server, load: &Load, done: &mut usize) {
    let mut since = Instant::now();
    while since.elapsed() < Duration::from_millis(1500) {
        let answer = load.deliver(server.address(), *done);
        if answer.is_some_and(|answer| answer.status == 200) {
            *done += 1;
        } else {
            since = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Delivers until an answer is 503; answers its code.
fn until_refused(server: &Server, load: &Load, done: &mut usize) -> String {
    while *done < load.events.len() - 1 {
        match load.deliver(server.address(), *done) {
            Some(answer) if answer.status == 503 => return answer.json()["code"].to_string(),
            Some(_) => *done += 1,
            // While it begins anew it may not listen for a moment.
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    panic!("the disk did not fill up with {done} events");
}
