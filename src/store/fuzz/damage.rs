//! Damage to files as a program of a few bytes a step.
//!
//! No step takes bytes from the program into a file: a fuzzer that compares checksums would soon write right ones. So
//! what passes for whole after this has a checksum that fits by chance, and that chance is too small to count.

use std::collections::BTreeMap;

use crate::fuzz::Input;

/// Files by name.
pub(in crate::store) type Files = BTreeMap<String, Vec<u8>>;

/// How many steps are taken at most.
const STEPS_MAX: usize = 16;

/// Does to the files what the bytes say.
pub(in crate::store) fn damage(files: &mut Files, mut input: Input<'_>) {
    for _ in 0..STEPS_MAX {
        if input.is_empty() || files.is_empty() {
            return;
        }
        let names: Vec<String> = files.keys().cloned().collect();
        let (step, name) = (input.byte(), input.pick(&names).clone());
        let (at, len) = (usize::from(input.short()), usize::from(input.byte()) + 1);
        let content = files.entry(name.clone()).or_default();
        let from = at % content.len().max(1);
        let to = (from + len).min(content.len());
        match step % 9 {
            0 => flip(content, from, 1 << (len % 8)),
            1 => (from..to).for_each(|at| flip(content, at, u8::try_from(len % 255).unwrap() + 1)),
            2 => content[from.min(to)..to].fill(0),
            3 => content.truncate(from),
            4 => content.extend(std::iter::repeat_n(u8::try_from(at % 2 * 255).unwrap(), len)),
            5 => {
                // What is lost ends at the file's end, and the file keeps its length: an unwritten tail.
                let all = content.len();
                content.truncate(from);
                content.resize(all, 0);
            }
            6 => {
                let other = files[input.pick(&names)].clone();
                let source = usize::from(input.short()) % other.len().max(1);
                let piece = &other[source.min(other.len())..(source + len).min(other.len())];
                let content = files.entry(name).or_default();
                let end = (from + piece.len()).min(content.len());
                let piece = &piece[..end.saturating_sub(from)];
                content[end - piece.len()..end].copy_from_slice(piece);
            }
            7 => {
                let other = input.pick(&names).clone();
                let (a, b) = (files[&name].clone(), files[&other].clone());
                files.insert(name, b);
                files.insert(other, a);
            }
            _ => {
                files.remove(&name);
            }
        }
    }
}

fn flip(content: &mut [u8], at: usize, mask: u8) {
    if let Some(byte) = content.get_mut(at) {
        *byte ^= mask;
    }
}

/// A program of each kind of step, alone and in pairs.
pub(in crate::store) fn damages() -> Vec<(String, Vec<u8>)> {
    let step = |kind: u8| [kind, kind, 0, kind.wrapping_mul(57), 9, 1, 0, 80];
    let mut seeds: Vec<_> = (0..9).map(|kind| (format!("{kind}"), [&[kind][..], &step(kind)].concat())).collect();
    seeds.push(("none".to_owned(), vec![0]));
    for (a, b) in [(0, 3), (5, 0), (6, 6), (7, 8)] {
        seeds.push((format!("{a}-{b}"), [&[1][..], &step(a), &step(b)].concat()));
    }
    seeds
}
