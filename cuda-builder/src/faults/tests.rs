use super::*;

/// A module with a kernel of these instructions, and further functions.
fn module(body: &str, functions: &str) -> String {
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n{functions}\n.visible .entry kernel(\n\t.param .u32 n,\n\t.param .u64 x\n)\n{{\n\
         .reg .pred %p<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n{body}\nret;\n}}\n"
    )
}

/// The faults, each as function, barrier, branch and origin.
fn found(ptx: &str) -> Vec<[String; 4]> {
    let parts = |fault| match fault {
        Fault::DivergentBarrier { function, barrier, branch, origin } => {
            [function, barrier.instruction, branch.instruction, origin.instruction]
        }
        fault @ Fault::DuplicatedArray { .. } => panic!("{fault}"),
    };
    faults(ptx).unwrap().into_iter().map(parts).collect()
}

#[track_caller]
fn assert_passes(body: &str) {
    assert_eq!(found(&module(body, "")), [[""; 4]; 0]);
}

/// Asserts that barriers of the kernel are refused, one for each of the branches.
#[track_caller]
fn assert_refused(body: &str, branches: &[&str], origin: &str) {
    let expected: Vec<_> = branches.iter().map(|branch| ["kernel", "bar.sync 0", branch, origin]).collect();
    assert_eq!(found(&module(body, "")), expected);
}

const TID: &str = "mov.u32 %r1, %tid.x";

#[test]
fn barriers_in_divergent_branches_are_refused() {
    let body = |source: &str| {
        format!(
            "mov.u32 %r1, {source};\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bra $A;\nbar.sync 0;\nbra.uni $B;\n$A:\nbar.sync 0;\n$B:\nbar.sync 0;"
        )
    };
    assert_refused(&body("%tid.x"), &["@%p1 bra $A", "@%p1 bra $A"], TID);
    assert_refused(&body("%laneid"), &["@%p1 bra $A", "@%p1 bra $A"], "mov.u32 %r1, %laneid");
    for uniform in ["%ctaid.x", "%ntid.y", "%nctaid.z", "7"] {
        assert_passes(&body(uniform));
    }
}

#[test]
fn a_barrier_in_a_loop_with_a_divergent_exit_is_refused() {
    let body = |start: &str| {
        format!(
            "{start};\n$A:\nbar.sync 0;\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;"
        )
    };
    assert_refused(&body(TID), &["@%p1 bra $A"], TID);
    assert_passes(&body("ld.param.u32 %r1, [n]"));
    assert_passes(&body("ld.param.u64 %rd1, [x];\nld.global.u32 %r1, [%rd1]"));
    let relaxed = "ld.relaxed.gpu.global.u32 %r1, [%rd1]";
    assert_refused(&body(&format!("ld.param.u64 %rd1, [x];\n{relaxed}")), &["@%p1 bra $A"], relaxed);
}

#[test]
fn early_returns_before_a_barrier_are_refused_and_traps_are_not() {
    let body = |end: &str| {
        format!(
            "{TID};\nld.param.u32 %r2, [n];\nsetp.ge.u32 %p1, %r1, %r2;\n@%p1 bra $A;\nbra.uni $B;\n$A:\n{end}\n$B:\nbar.sync 0;"
        )
    };
    assert_refused(&body("ret;"), &["@%p1 bra $A"], TID);
    assert_refused(&body("exit;"), &["@%p1 bra $A"], TID);
    assert_passes(&body("trap; exit;"));
    assert_passes(&body("$C: bra.uni $C;"));
    let guarded = |end: &str| format!("{TID};\nsetp.ge.u32 %p1, %r1, 5;\n@%p1 {end};\nbar.sync 0;");
    assert_refused(&guarded("ret"), &["@%p1 ret"], TID);
    assert_passes(&guarded("trap"));
    let panics = module(&body("call.uni stop, ();"), ".func stop\n()\n.noreturn\n{\ntrap; exit;\n}");
    assert_eq!(found(&panics), [[""; 4]; 0]);
}

#[test]
fn a_barrier_with_a_divergent_guard_is_refused() {
    let body = |source: &str| format!("{source};\nsetp.eq.u32 %p1, %r1, 0;\n@!%p1 bar.sync 0;");
    let guarded = "@!%p1 bar.sync 0";
    assert_eq!(found(&module(&body(TID), "")), [["kernel", guarded, guarded, TID]]);
    assert_passes(&body("ld.param.u32 %r1, [n]"));
}

#[test]
fn warp_operations_atomics_and_local_memory_are_divergent() {
    for (cause, rest) in [
        ("shfl.sync.idx.b32 %r1, %r2, 0, 31, -1", ""),
        ("vote.sync.ballot.b32 %r1, %p2, -1", ""),
        ("activemask.b32 %r1", ""),
        ("atom.shared.add.u32 %r1, [%r2], 1", ""),
        ("mov.u64 %rd1, %clock64", "cvt.u32.u64 %r1, %rd1;"),
        ("ld.local.u32 %r1, [%rd2]", ""),
        ("some.new.instruction %r1, %r2", ""),
    ] {
        let body = format!("{cause};\n{rest}\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:");
        assert_refused(&body, &["@%p1 bra $A"], cause);
    }
    let local = ".local .b8 depot[8];\nmov.u64 %rd1, depot;\nld.u32 %r1, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:";
    assert_refused(local, &["@%p1 bra $A"], "mov.u64 %rd1, depot");
}

#[test]
fn a_load_from_a_uniform_address_is_uniform() {
    let body = |address: &str, barrier: &str| {
        format!(
            "{{ .shared .align 16 .b8 array[4]; mov.u32 %r2, array; }}\n{TID};\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $A;\n\
             st.shared.u32 [%r2], 5;\n$A:\nbar.sync 0;\nld.shared.u32 %r3, [{address}];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra $B;\n{barrier};\n$B:"
        )
    };
    assert_passes(&body("%r2", "bar.sync 0"));
    assert_refused(&body("%r1", "bar.sync 0"), &["@%p2 bra $B"], TID);
    // Barriers for some of the threads.
    assert_passes(&body("%r1", "barrier.sync 1, 64"));
    assert_passes(&body("%r1", "bar.warp.sync -1"));
    // The result of a reduction is uniform.
    let reduced =
        format!("{TID};\nbar.red.popc.u32 %r2, 0, %p2;\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:");
    assert_passes(&reduced);
    assert_refused(&reduced.replace("bar.red.popc.u32 %r2, 0, %p2", "mov.u32 %r2, %r1"), &["@%p1 bra $A"], TID);
}

#[test]
fn a_value_assigned_in_a_divergent_branch_is_divergent() {
    let body = |value: &str| {
        format!(
            "{TID};\nsetp.eq.u32 %p1, {value}, 0;\nmov.u32 %r2, 1;\n@%p1 bra $A;\nmov.u32 %r2, 2;\n$A:\n\
             setp.eq.u32 %p2, %r2, 1;\n@%p2 bra $B;\nbar.sync 0;\n$B:"
        )
    };
    assert_refused(&body("%r1"), &["@%p2 bra $B"], TID);
    assert_passes(&body("%r3"));
    // A guard instead of a branch.
    let guarded = |value: &str| {
        format!(
            "{TID};\nsetp.eq.u32 %p1, {value}, 0;\nmov.u32 %r2, 1;\n@%p1 mov.u32 %r2, 2;\nsetp.eq.u32 %p2, %r2, 1;\n@%p2 bra $B;\nbar.sync 0;\n$B:"
        )
    };
    assert_refused(&guarded("%r1"), &["@%p2 bra $B"], TID);
    assert_passes(&guarded("%r3"));
}

#[test]
fn a_register_may_be_divergent_in_one_place_and_uniform_in_another() {
    // The compiler counts down in the register that held the number of rounds.
    let before = "ld.param.u32 %r2, [n];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\n";
    let after = "setp.ne.u32 %p2, %r1, 0;\n@%p2 bra $C;\n$B:\nadd.s32 %r2, %r2, -1;\nsetp.ne.u32 %p3, %r2, 0;\n@%p3 bra $B;\n$C:\n";
    assert_passes(&format!("{TID};\n{before}{after}"));
    let around = format!(
        "{TID};\nmov.u32 %r2, 3;\n$L:\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\n{after}add.s32 %r4, %r4, 1;\nsetp.lt.s32 %p4, %r4, 9;\n@%p4 bra $L;"
    );
    assert_refused(&around, &["@%p1 bra $A"], TID);
}

#[test]
fn calls_of_functions_with_barriers_are_barriers() {
    let functions = |head: &str| {
        format!(
            ".func inner(\n\t.param .u32 inner_param_0\n)\n{{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\nld.param.u32 %r1, [inner_param_0];\n\
             setp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\nbar.sync 0;\n$A:\nret;\n}}\n\
             .func (.param .b32 result) outer(\n\t.param .u32 outer_param_0\n)\n{{\n.reg .b32 %r<3>;\n{head}\n\
             {{ // callseq 0, 0\n.param .b32 param0;\nst.param.b32 [param0], %r1;\ncall.uni inner,\n(\nparam0\n);\n}}\nret;\n}}"
        )
    };
    let body = |value: &str| {
        format!(
            "{TID};\nld.param.u32 %r2, [n];\n{{\n.param .b32 param0;\n.param .b32 result0;\nst.param.b32 [param0], {value};\n\
             call.uni (result0), outer, (param0);\nld.param.b32 %r3, [result0];\n}}"
        )
    };
    let passes_on = functions("ld.param.u32 %r1, [outer_param_0];");
    assert_eq!(found(&module(&body("%r2"), &passes_on)), [[""; 4]; 0]);
    assert_eq!(found(&module(&body("%r1"), &passes_on)), [["inner", "bar.sync 0", "@%p1 bra $A", TID]]);
    assert_eq!(found(&module(&body("%r1"), &functions("mov.u32 %r1, 4;"))), [[""; 4]; 0]);

    let branch = |call: &str| format!("{TID};\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $A;\n{call};\n$A:");
    for call in ["call.uni outer, (1)", "call %rd1, (1), prototype"] {
        assert_eq!(found(&module(&branch(call), &passes_on)), [["kernel", call, "@%p1 bra $A", TID]]);
    }
    let without = ".func plain()\n{\nret;\n}";
    assert_eq!(found(&module(&format!("bar.sync 0;\n{}", branch("call.uni plain, ()")), without)), [[""; 4]; 0]);
}

#[test]
fn jumps_by_table_and_labels_of_inline_assembly_are_followed() {
    let by_table = |index: &str| {
        format!("{TID};\n$table: .branchtargets $A, $B;\nbrx.idx {index}, $table;\n$A:\nbar.sync 0;\n$B:")
    };
    assert_refused(&by_table("%r1"), &["brx.idx %r1, $table"], TID);
    assert_passes(&by_table("%r2"));
    let waits = "{ .reg .pred p; WAIT: mbarrier.try_wait.shared.b64 p, [%r2], 0; @p bra DONE; bra WAIT; DONE: }";
    assert_passes(&format!("{waits}\n{waits}\nbar.sync 0;"));
    let message = faults(&module("bra $nowhere;\nbar.sync 0;", "")).unwrap_err().to_string();
    assert!(message.contains("kernel has no label $nowhere"), "{message}");
}

#[test]
fn duplicated_barriers_are_refused() {
    let found = faults(include_str!("../../tests/data/duplicated_barriers.ptx")).unwrap();
    let lines = found.iter().map(|fault| match fault {
        Fault::DivergentBarrier { barrier, branch, origin, .. } => [barrier.line, branch.line, origin.line],
        Fault::DuplicatedArray { .. } => panic!("{fault}"),
    });
    assert_eq!(lines.collect::<Vec<_>>(), [85, 91, 119, 120, 133].map(|line| [line, 78, 50]));
    let message = "gemm: not all threads of a block execute the barrier `bar.sync 0` (line 85): the branch `@%p43 bra $L20` (line 78) depends on \
                   `mov.u32 %r10, %tid.x` (line 50), which differs between them";
    assert_eq!(found[0].to_string(), message);
}
