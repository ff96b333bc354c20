//! What only the embedded store does: faults of the disk, damage of its files, bounds of its memory.

mod bounds;
mod checking;
mod damage;
mod faults;
mod flips;
mod full;
mod missing;
mod opening;
mod overflow;
mod unproved;
