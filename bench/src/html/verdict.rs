//! What it comes to: how often we are as fast as others, where we lose first of all.

use clap::ValueEnum;
use maud::{Markup, html};
use measure::{Clock, DTypeName, geometric_mean};

use super::{
    ratio,
    scale::{LogScale, range},
    short, speed, unit,
};
use crate::{
    baselines::Baseline,
    cg::CAPTURED,
    reading::{Document, Kind, Ratios, Reading, Section, Way},
    report::Skipped,
    table,
};

/// The axis ends here, lest one library far behind press all others together: what is beyond is at its end, as an arrow.
const FARTHEST: f64 = 8.0;

/// One operation compared with one library.
struct Verdict {
    kind: Kind,
    dtype: DTypeName,
    baseline: String,
    duels: Vec<Duel>,
}

/// What one case comes to.
struct Duel {
    label: String,
    ratio: f64,
    /// Of host call times.
    calls: f64,
    title: String,
}

impl Verdict {
    fn mean(&self) -> f64 {
        let ratios: Vec<f64> = self.duels.iter().map(|duel| duel.ratio).collect();
        geometric_mean(&ratios).expect("a verdict has a case")
    }

    /// Of host call times.
    fn mean_of_calls(&self) -> f64 {
        let ratios: Vec<f64> = self.duels.iter().map(|duel| duel.calls).collect();
        geometric_mean(&ratios).expect("a verdict has a case")
    }

    fn lost(&self) -> usize {
        self.duels.iter().filter(|duel| duel.ratio < 1.0).count()
    }

    fn lowest(&self) -> &Duel {
        self.duels.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio)).expect("a verdict has a case")
    }

    fn title(&self) -> String {
        format!("{} {}", self.kind.short(), self.dtype)
    }
}

/// Of all operations but formats, whose products are those of others. Sections of one kind count together, a case once.
fn verdicts(readings: &[(&Section, Reading)]) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = Vec::new();
    for (_, reading) in readings.iter().filter(|(_, reading)| reading.kind != Kind::Formats) {
        for case in &reading.cases {
            for (way, Ratios { times: ratio, calls }) in case.ratios() {
                let Some(baseline) = baseline_name(reading.kind, way) else { continue };
                let of = |it: &Verdict| (it.kind, it.dtype, &it.baseline) == (reading.kind, case.dtype, &baseline);
                let place = verdicts.iter().position(of).unwrap_or_else(|| {
                    let (kind, dtype, baseline) = (reading.kind, case.dtype, baseline.clone());
                    verdicts.push(Verdict { kind, dtype, baseline, duels: Vec::new() });
                    verdicts.len() - 1
                });
                let label = case.label();
                if verdicts[place].duels.iter().any(|duel| duel.label == label) {
                    continue;
                }
                let Some((_, chosen)) = case.chosen() else { continue };
                let Ok(theirs) = &way.timed else { continue };
                let [ours, theirs] = [&chosen, theirs].map(|timed| short(speed(reading.kind, case.flops, timed)));
                let unit = unit(reading.kind);
                let title =
                    format!("{label}: {ratio:.3}×, {ours} against {theirs} {unit}; by host call times {calls:.3}×");
                verdicts[place].duels.push(Duel { label, ratio, calls, title });
            }
        }
    }
    verdicts
}

/// Of conjugate gradients the libraries count as captured in a graph, where they are fastest without anything of ours.
fn baseline_name(kind: Kind, way: &Way) -> Option<String> {
    let is_of_calls = way.timed.as_ref().is_ok_and(|timed| timed.timing.clock == Clock::Calls);
    match kind {
        Kind::Cg => (way.name == CAPTURED).then(|| "cuSPARSE and cuBLAS in a graph".into()),
        _ if is_of_calls => Some(format!("{}, {}", way.name, Clock::Calls.name())),
        _ => Some(way.name.clone()),
    }
}

/// The cases in which another library is faster, the worst first.
fn lost(verdicts: &[Verdict]) -> Vec<(&Verdict, &Duel)> {
    let duels = verdicts.iter().flat_map(|verdict| verdict.duels.iter().map(move |duel| (verdict, duel)));
    let mut lost: Vec<_> = duels.filter(|(_, duel)| duel.ratio < 1.0).collect();
    lost.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    lost
}

fn cases(verdicts: &[Verdict]) -> usize {
    verdicts.iter().map(|verdict| verdict.duels.len()).sum()
}

/// The same on the terminal.
pub(crate) fn headline(document: &Document) -> Result<String, String> {
    let readings = document.readings()?;
    let verdicts = verdicts(&readings);
    let mut text = format!("warpsparse {} on {}; {}\n\n", document.warpsparse, document.machine.model, document.date);
    let row = |verdict: &Verdict| {
        let lowest = verdict.lowest();
        vec![
            verdict.title(),
            verdict.baseline.clone(),
            format!("{:.2}", verdict.mean()),
            format!("{} of {}", verdict.lost(), verdict.duels.len()),
            format!("{:.2}", lowest.ratio),
            lowest.label.clone(),
            format!("{:.2}", verdict.mean_of_calls()),
        ]
    };
    if verdicts.is_empty() {
        text += "There is no other library to compare with.\n";
    } else {
        let lost = lost(&verdicts);
        text += &format!(
            "Slower in {} of {} cases{}\n",
            lost.len(),
            cases(&verdicts),
            if lost.is_empty() { "." } else { ":\n" }
        );
        for (verdict, duel) in lost {
            text += &format!("- {:.3} {} {} against {}\n", duel.ratio, verdict.title(), duel.label, verdict.baseline);
        }
        let header = ["<operation", "<against", "speedup", "slower on", "lowest", "<on", "of host calls"];
        text += "\n";
        text += &table::markdown(&header, &verdicts.iter().map(row).collect::<Vec<_>>());
        text += "\nSpeedups are geometric means of the other library's time over ours: of device times on a GPU, and in the last column of host \
            call times. Where the library's name says so, and for conjugate gradients, both are the host's.\n";
    }
    for section in &document.sections {
        let Some(command) = &section.command else { continue };
        let skipped = section.report["skipped"].as_array().map_or(0, Vec::len);
        text += &format!("\n{:.1} s, {skipped} skipped: {command}", section.seconds.unwrap_or_default());
    }
    Ok(text + "\n")
}

pub(super) fn section(readings: &[(&Section, Reading)]) -> Markup {
    let (verdicts, libraries) = (verdicts(readings), libraries(readings));
    let ratios = verdicts.iter().flat_map(|verdict| verdict.duels.iter().map(|duel| duel.ratio));
    let Some((least, greatest)) = range(ratios) else {
        return html! {
            section #headline {
                h2 { "Against other libraries" }
                p { "There is no other library to compare with." }
                (libraries)
            }
        };
    };
    let (from, to) = ((least / 1.1).clamp(1.0 / FARTHEST, 0.45), (greatest * 1.1).clamp(2.2, FARTHEST));
    let x = LogScale::new(from, to, 0.0, 100.0);
    html! {
        section #headline {
            h2 { "Against other libraries" }
            (losses(&verdicts))
            h3 { "Speedups" }
            p.lead {
                "The other library's time over ours: geometric means over all cases, of device times on a GPU unless the library's name \
                 says otherwise. A dot is a case, "
                span.good { "right of 1 faster" } ", " span.bad { "left of it slower" } "."
            }
            div.verdicts {
                @for verdict in &verdicts { (row(verdict, &x)) }
                div.verdict.axis {
                    div.strip { @for (place, text) in powers(&x) { span style=(format!("left:{place:.2}%")) { (text) } } }
                }
            }
            (libraries)
        }
    }
}

/// The libraries, and those that are compared with elsewhere and not in this report.
fn libraries(readings: &[(&Section, Reading)]) -> Markup {
    let is_library = |what: &str| Baseline::value_variants().iter().any(|baseline| baseline.name() == what);
    let skipped = readings.iter().flat_map(|(_, reading)| &reading.skipped);
    let mut absent: Vec<&Skipped> = skipped.filter(|skipped| is_library(&skipped.what)).collect();
    absent.sort_by_key(|skipped| (&skipped.what, &skipped.reason));
    absent.dedup_by_key(|skipped| (&skipped.what, &skipped.reason));
    let mut present: Vec<&String> = readings.iter().flat_map(|(_, reading)| &reading.method.baselines).collect();
    present.sort();
    present.dedup();
    html! {
        @if !present.is_empty() {
            h3 { "Compared with" }
            ul { @for library in present { li { (library) } } }
        }
        @if !absent.is_empty() {
            h3 { "Not compared with" }
            ul { @for Skipped { what, reason } in absent { li { b { (what) } ": " (reason) } } }
        }
    }
}

fn row(verdict: &Verdict, x: &LogScale) -> Markup {
    let (mean, lost, count) = (verdict.mean(), verdict.lost(), verdict.duels.len());
    let lowest = verdict.lowest();
    let class = |ratio: f64| if ratio >= 1.0 { "good" } else { "bad" };
    let is_beyond = |ratio: f64| !(x.from..=x.to).contains(&ratio);
    let place = |ratio: f64| format!("left:{:.2}%", x.at(ratio.clamp(x.from, x.to)));
    html! {
        div.verdict {
            div.what { b { (verdict.title()) } span.quiet { "against " (verdict.baseline) } }
            div.mean.(class(mean)) { (ratio(mean)) }
            div.strip {
                @for (place, _) in powers(x) { span.rule style=(format!("left:{place:.2}%")) {} }
                span.one style=(place(1.0)) {}
                @for duel in &verdict.duels {
                    span.dot.(class(duel.ratio)).beyond[is_beyond(duel.ratio)] style=(place(duel.ratio)) title=(duel.title) {}
                }
                @if !is_beyond(mean) {
                    span.middle style=(place(mean)) title=(format!("geometric mean {mean:.3}×")) {}
                }
            }
            div.quiet.note {
                @if lost == 0 { "faster on all " (count) } @else { "slower on " b.bad { (lost) } " of " (count) }
                ", lowest " (ratio(lowest.ratio)) " on " (lowest.label)
                "; of host call times " (ratio(verdict.mean_of_calls()))
            }
        }
    }
}

/// Powers of two, for an axis of ratios: so few that their texts do not touch.
fn powers(x: &LogScale) -> Vec<(f64, String)> {
    let exponents = x.from.log2().ceil() as i32..=x.to.log2().floor() as i32;
    let step = (exponents.clone().count() as i32 / 6).max(1);
    let text = |exponent: i32| {
        if exponent < 0 { format!("1/{}", 2f64.powi(-exponent)) } else { format!("{}×", 2f64.powi(exponent)) }
    };
    let is_marked = |exponent: &i32| exponent % step == 0;
    exponents.filter(is_marked).map(|exponent| (x.at(2f64.powi(exponent)), text(exponent))).collect()
}

/// Every case in which another library is faster.
fn losses(verdicts: &[Verdict]) -> Markup {
    let losses = lost(verdicts);
    html! {
        h3 { "Where we are slower: " (losses.len()) " of " (cases(verdicts)) }
        @if losses.is_empty() {
            p.quiet { "In none of these cases." }
        } @else {
            ul.losses {
                @for (verdict, duel) in losses {
                    li title=(duel.title) {
                        b.bad { (ratio(duel.ratio)) } " " (verdict.title()) " " (duel.label)
                        span.quiet { " against " (verdict.baseline) }
                    }
                }
            }
        }
    }
}
