------------------------------- MODULE Trace -------------------------------
(***************************************************************************)
(* Real runs as behaviours of the module Lake.  model/traces.py makes a    *)
(* sequence of steps of what a run did to the store; each is allowed here  *)
(* only as Lake's rules allow it, with Lake's own words, and Lake's        *)
(* invariants are looked at after each.  A trace that has a step which is  *)
(* not allowed is refused.                                                 *)
(***************************************************************************)
EXTENDS Lake

CONSTANTS Traces, Only  \* Only: the numbers of those that are looked at
VARIABLES
  t, i,   \* which trace, and which of its steps is next
  born,   \* every name that was ever published
  contents, \* those of files that rows name
  listed, \* of each who listed the leases, those there were, and after which transaction
  sure    \* the readers that saw the log's end after their lease was there

traceVars == <<vars, t, i, born, contents, listed, sure>>
Step == Traces[t][i]

\* Of all processes only what the store shows of them is known: nothing is kept in pc, mine, plan.
TraceInit ==
  /\ t \in Only /\ i = 1
  /\ log = <<>> /\ disk = {} /\ acked = {} /\ leases = <<>> /\ view = <<>>
  /\ lock = 0 /\ pc = <<>> /\ mine = <<>> /\ plan = <<>>
  /\ born = {} /\ contents = {} /\ listed = <<>> /\ sure = {}

Same(others) == UNCHANGED <<acked, lock, pc, mine, plan, others>>
Without(f, x) == [y \in DOMAIN f \ {x} |-> f[y]]
Held(r) == r \in DOMAIN leases

\* The name of a file that rows name may come from another lake, and so again: that it was never
\* announced, the entry has to see.
TPublish ==
  /\ Step.op = "publish" /\ Step.file \notin born \ (contents \ disk)
  /\ disk' = disk \cup {Step.file} /\ born' = born \cup {Step.file}
  /\ contents' = IF Step.content THEN contents \cup {Step.file} ELSE contents
  /\ Same(<<log, leases, view, listed, sure>>)

\* In the place of what it read (previous is the hash of the entry before), of files that are
\* there and that nobody is about to delete.
TAppend ==
  /\ Step.op = "append" /\ Step.number = Last + 1 /\ Step.follows
  /\ Step.adds \subseteq disk \ Doomed(0)
  /\ IF Step.kind = "undrop" THEN Step.adds = log[Last].back ELSE Step.adds \cap Named(Last) \subseteq contents
  /\ Step.kind \in {"freeze", "change", "move", "drop"} => There
  /\ Step.drops \subseteq Used(Last)
  /\ Step.deletes \cap Used(Last) = {}
  /\ Step.kind = "move" => \E n \in 1..Last :  \* it was announced, and none moved since
       /\ log[n].who = Step.who /\ log[n].op \in {"start", "move"}
       /\ \A m \in (n + 1)..Last : log[m].op \notin {"move", "drop", "undrop"}
  /\ Append1([Entry(Step.kind, Step.who) EXCEPT
       !.adds = IF Step.kind = "undrop" THEN {} ELSE Step.adds, !.drops = Step.drops, !.deletes = Step.deletes])
  /\ Same(<<disk, leases, view, born, listed, sure, contents>>)

TLease ==
  /\ Step.op = "lease" /\ Step.number <= Last
  /\ leases' = (Step.who :> Step.number) @@ leases
  /\ Same(<<log, disk, view, born, listed, sure, contents>>)

TReread ==  \* it saw the log's end: the next entry is missing
  /\ Step.op = "reread" /\ Held(Step.who) /\ Step.number = Last
  /\ view' = (Step.who :> Last) @@ view
  /\ sure' = sure \cup {Step.who}
  /\ Same(<<log, disk, leases, born, listed, contents>>)

TRelease ==
  /\ Step.op = "release"
  /\ leases' = Without(leases, Step.who) /\ sure' = sure \ {Step.who}
  /\ Same(<<log, disk, view, born, listed, contents>>)

TListLeases ==
  /\ Step.op = "list"
  /\ listed' = (Step.who :> [held |-> DOMAIN leases, after |-> Last]) @@ listed
  /\ Same(<<log, disk, leases, view, born, sure, contents>>)

\* A writer takes back what no entry names, as no entry did when it gave up, but no file that rows
\* name.  A vacuum deletes what was announced, or dropped if nobody can name it again, once it has listed the leases since and none of them is in the way.
TDelete ==
  /\ Step.op = "delete" /\ Step.file \in disk
  /\ Step.file \notin Used(Last)
  /\ \/ Step.own /\ Step.file \notin Named(Last)
     \/ /\ Step.file \in Doomed(0) \/ (Step.file \notin contents /\ DroppedBy(Step.file) > 0)
        /\ Step.who \in DOMAIN listed /\ listed[Step.who].after >= DroppedBy(Step.file)
        /\ Step.file \notin log[Last].back
        /\ DroppedBy(Step.file) = 0 \/ \A r \in listed[Step.who].held :
             Held(r) => leases[r] >= DroppedBy(Step.file)
  /\ disk' = disk \ {Step.file}
  /\ Same(<<log, leases, view, born, listed, sure, contents>>)

\* What was there before the recording began had lost some of its files already.
TVanish ==
  /\ Step.op = "vanish" /\ Step.file \in disk \ Used(Last)
  /\ disk' = disk \ {Step.file}
  /\ Same(<<log, leases, view, born, listed, sure, contents>>)

\* A process that was killed in the middle of it did it or did not.
TMaybeNot == Step.maybe /\ Same(<<log, disk, leases, view, born, listed, sure, contents>>)

TStep ==
  /\ i <= Len(Traces[t])
  /\ TPublish \/ TAppend \/ TLease \/ TReread \/ TRelease \/ TListLeases \/ TDelete
     \/ TVanish \/ TMaybeNot
  /\ i' = i + 1 /\ t' = t

TEnd ==
  /\ i = Len(Traces[t]) + 1 /\ PrintT(<<"accepted", t>>)
  /\ i' = i + 1 /\ t' = t /\ Same(<<log, disk, leases, view, born, listed, sure, contents>>)

TraceSpec == TraceInit /\ [][TStep \/ TEnd]_traceVars

\* Files that rows name are named again; no other is.
TraceOneCommitEach ==
  \A m, n \in 1..Last : m # n => log[m].adds \cap log[n].adds \subseteq contents
TraceLiveReaders == \A r \in sure : Used(view[r]) \subseteq disk
\* Where the trace goes no further this is the last that was printed of it.
TraceKeepsInvariants ==
  /\ PrintT(<<"at", t, i>>)
  /\ TraceOneCommitEach /\ NeededFilesExist /\ NothingDoomedIsNamed /\ TraceLiveReaders
  /\ Last > 0 => RestorableFilesExist
=============================================================================
