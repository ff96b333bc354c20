//! Diagrams: a machine as text for a terminal, for Mermaid and for Graphviz.
//!
//! Names are printed as they are: a checked machine's hold nothing that these forms would take for their own.

use std::fmt::Write;

use super::graph::{Machine, Place, Policies, StateSpec};

/// The widest cell of the table, and the widest line of prose, in characters.
const CELL_WIDTH_MAX: usize = 34;
const LINE_WIDTH_MAX: usize = 110;

/// The machine as a table for a terminal: every state with its marks, its edges, and what lies strictly ahead.
#[must_use]
pub fn text(machine: &Machine) -> String {
    let mut out = format!("{}, version {}\n", machine.name(), machine.version());
    for paragraph in machine.doc().split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        out.push('\n');
        prose(&mut out, "", paragraph);
    }
    out.push('\n');
    let places = places(machine);
    let mut rows = vec![["state", "marks", "moves to", "strictly ahead"].map(|head| vec![head.to_owned()])];
    for (place, state) in &places {
        let to = names(&places, |to| machine.has_edge(*place, to));
        let ahead = names(&places, |other| machine.is_strictly_ahead(other, *place));
        rows.push([vec![state.name.to_string()], vec![marks(state)], listed(&to), listed(&ahead)]);
    }
    table(&mut out, &rows);
    happenings(&mut out, machine, &places);
    policies(&mut out, machine.policies());
    meanings(&mut out, &places);
    out
}

/// The machine as a Mermaid state diagram.
#[must_use]
pub fn mermaid(machine: &Machine) -> String {
    let mut out = format!("---\ntitle: {}\n---\nstateDiagram-v2\n", machine.name());
    let places = places(machine);
    // Mermaid takes few characters in an identifier and reserves some words, so ids are made and names are labels.
    for (index, (_, state)) in places.iter().enumerate() {
        line(&mut out, format_args!("    state \"{}\" as s{index}", state.name));
    }
    for (index, (_, state)) in places.iter().enumerate() {
        if state.initial {
            line(&mut out, format_args!("    [*] --> s{index}"));
        }
    }
    for (a, (from, _)) in places.iter().enumerate() {
        for (b, (to, _)) in places.iter().enumerate() {
            if machine.has_edge(*from, *to) {
                let events = events(machine, *from, *to);
                let label = if events.is_empty() { String::new() } else { format!(": {}", events.join(", ")) };
                line(&mut out, format_args!("    s{a} --> s{b}{label}"));
            }
        }
    }
    for (index, (_, state)) in places.iter().enumerate() {
        if state.terminal {
            line(&mut out, format_args!("    s{index} --> [*]"));
        }
    }
    out
}

/// The machine as a Graphviz digraph: an arrow from a dot leads to initial states, terminal ones have two lines,
/// gone ones are dashed.
#[must_use]
pub fn dot(machine: &Machine) -> String {
    let mut out = format!("digraph \"{}\" {{\n    rankdir=LR;\n    node [shape=box];\n", machine.name());
    let places = places(machine);
    for (_, StateSpec { name, initial, terminal, gone, .. }) in &places {
        let lines = if *terminal { "peripheries=2" } else { "peripheries=1" };
        let style = if *gone { ", style=dashed" } else { "" };
        line(&mut out, format_args!("    \"{name}\" [{lines}{style}];"));
        if *initial {
            line(&mut out, format_args!("    \"> {name}\" [shape=point];\n    \"> {name}\" -> \"{name}\";"));
        }
    }
    for (from, StateSpec { name: from_name, .. }) in &places {
        for (to, StateSpec { name: to_name, .. }) in places.iter().filter(|(to, _)| machine.has_edge(*from, *to)) {
            let events = events(machine, *from, *to);
            let label = if events.is_empty() { String::new() } else { format!(" [label=\"{}\"]", events.join("\\n")) };
            line(&mut out, format_args!("    \"{from_name}\" -> \"{to_name}\"{label};"));
        }
    }
    out.push_str("}\n");
    out
}

type Places<'m> = Vec<(Place, &'m StateSpec)>;

fn places(machine: &Machine) -> Places<'_> {
    machine.states().iter().filter_map(|state| Some((machine.place(&state.name)?, state))).collect()
}

fn names<'m>(places: &Places<'m>, wanted: impl Fn(Place) -> bool) -> Vec<&'m str> {
    places.iter().filter(|(place, _)| wanted(*place)).map(|(_, state)| state.name.as_str()).collect()
}

/// The happenings that take an edge, in the order of their names.
fn events(machine: &Machine, from: Place, to: Place) -> Vec<String> {
    let takes = |name: &&crate::domain::StateName| machine.happening(name).contains(&(from, to));
    machine.happenings().filter(takes).map(ToString::to_string).collect()
}

fn marks(state: &StateSpec) -> String {
    let marks = [(state.initial, "initial"), (state.terminal, "terminal"), (state.gone, "gone")];
    let set: Vec<&str> = marks.iter().filter(|(is_set, _)| *is_set).map(|(_, mark)| *mark).collect();
    if set.is_empty() { "-".to_owned() } else { set.join(" ") }
}

fn happenings(out: &mut String, machine: &Machine, places: &Places<'_>) {
    let events: Vec<_> = machine.happenings().collect();
    if events.is_empty() {
        return;
    }
    let mut rows = vec![["happening", "takes"].map(|head| vec![head.to_owned()])];
    for event in events {
        let taken = machine.happening(event);
        let edges = places.iter().filter_map(|(to, state)| {
            let from = names(places, |from| taken.contains(&(from, *to)));
            (!from.is_empty()).then(|| format!("{} -> {}", from.join(", "), state.name))
        });
        rows.push([vec![event.to_string()], edges.collect()]);
    }
    out.push('\n');
    table(out, &rows);
}

fn policies(out: &mut String, policies: Policies) {
    let Policies { on_gap, on_divergence } = policies;
    let (on_gap, on_divergence) = (on_gap.as_str(), on_divergence.as_str());
    line(out, format_args!("\non a gap: {on_gap}; on divergence: {on_divergence}"));
}

fn meanings(out: &mut String, places: &Places<'_>) {
    let told: Vec<&StateSpec> = places.iter().map(|(_, state)| *state).filter(|state| !state.doc.is_empty()).collect();
    let width = told.iter().map(|state| width(state.name.as_str())).max().unwrap_or(0);
    if !told.is_empty() {
        out.push('\n');
    }
    for state in told {
        prose(out, &format!("{:<width$}  ", state.name), &state.doc);
    }
}

/// Writes prose after a head; what goes to further lines is indented by the head's width.
fn prose(out: &mut String, head: &str, text: &str) {
    let indent = " ".repeat(width(head));
    for (index, words) in wrap(text.split_whitespace(), LINE_WIDTH_MAX).iter().enumerate() {
        line(out, format_args!("{}{words}", if index == 0 { head } else { &indent }));
    }
}

/// Names in lines of a cell's width.
fn listed(names: &[&str]) -> Vec<String> {
    if names.is_empty() {
        return vec!["-".to_owned()];
    }
    let last = names.len().saturating_sub(1);
    let words: Vec<String> =
        names.iter().enumerate().map(|(i, name)| format!("{name}{}", if i == last { "" } else { "," })).collect();
    wrap(words.iter().map(String::as_str), CELL_WIDTH_MAX)
}

fn wrap<'w>(words: impl Iterator<Item = &'w str>, width_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if width(line).saturating_add(width(word)) < width_max => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Writes rows of cells, each of one or more lines, with the columns aligned.
fn table<const N: usize>(out: &mut String, rows: &[[Vec<String>; N]]) {
    let mut widths = [0; N];
    for row in rows {
        for (cell, max) in row.iter().zip(&mut widths) {
            *max = cell.iter().map(|line| width(line)).fold(*max, usize::max);
        }
    }
    for row in rows {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for index in 0..height {
            let cells = row.iter().zip(widths).map(|(cell, width)| {
                let text = cell.get(index).map_or("", String::as_str);
                format!("{text:<width$}")
            });
            line(out, format_args!("{}", cells.collect::<Vec<_>>().join("  ").trim_end()));
        }
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests;
