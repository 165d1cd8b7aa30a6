------------------------------ MODULE History ------------------------------
(***************************************************************************)
(* Which rows the log says there are: freezes, dropped history, combined   *)
(* files and syncs, all at once.  Files are left out: that they are there  *)
(* is what the module Lake is about, and that a name means the same bytes  *)
(* for ever lets the two be looked at apart.                               *)
(*                                                                         *)
(* Each transaction that adds rows adds one block with one row.  A row is  *)
(* the number of the block that it came in; its key is keys[row].  Where   *)
(* history was dropped, a block holds the rows that were kept of several.  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Freezers, Vacuums, Keys,
  MaxSyncs, MaxDeletions,
  CheckUnmovedSincePlan, CheckUnmoved, FreezeChecksReadable, DropChecksFrozen, KeepDeleted

VARIABLES
  log,    \* of each transaction, the snapshot that it makes
  keys,   \* of each row, its key
  said,   \* of each frozen transaction, the rows that its fingerprint is of
  broken, \* whether an entry does not fit the log before it
  pc, view, plan

vars == <<log, keys, said, broken, pc, view, plan>>
Procs == Freezers \cup Vacuums

-----------------------------------------------------------------------------
Last == Len(log)
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Newest(rows) == {r \in rows : \A other \in rows : keys[other] = keys[r] => other <= r}
Rows(blocks) == UNION {blocks[n] : n \in DOMAIN blocks}
Up(blocks, from, to) == [n \in {m \in DOMAIN blocks : from < m /\ m <= to} |-> blocks[n]]

\* The state at a transaction: as it was, and as the snapshot at another one reads it.
Truth(at) == Newest(1..log[at].last)
Reads(n, at) == Newest(Rows(Up(log[n].blocks, 0, log[at].last)))
FloorBlock(n) == IF log[n].floor = 0 THEN 0 ELSE log[log[n].floor].last
\* A version that was deleted protects its state until the floor has come to that entry.
DeletedSince(n, floor) == {gone[1] : gone \in {g \in log[n].lost : g[2] > floor}}
Protecting(n, floor) == log[n].frozen \cup DeletedSince(n, floor)
Kept(n, floor) == IF KeepDeleted THEN Protecting(n, floor) ELSE log[n].frozen
Readable(n, at) ==
  log[at].last >= FloorBlock(n) \/
     \E version \in Protecting(n, log[n].floor) : log[version].last = log[at].last

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
NoPlan == [moved |-> <<>>, gone |-> {}, floor |-> 0, protected |-> {}]

Init ==
  /\ keys = <<1, 1>>
  /\ log = <<[op |-> "sync", last |-> 1, blocks |-> (1 :> {1}), floor |-> 0, frozen |-> {},
              lost |-> {}],
             [op |-> "sync", last |-> 2, blocks |-> (1 :> {1} @@ 2 :> {2}), floor |-> 0,
              frozen |-> {}, lost |-> {}]>>
  /\ said = <<>> /\ broken = FALSE
  /\ pc = [p \in Procs |-> "idle"]
  /\ view = [p \in Procs |-> 0]
  /\ plan = [p \in Procs |-> NoPlan]

-----------------------------------------------------------------------------
Sync(key) ==
  /\ log[Last].last < MaxSyncs
  /\ keys' = Append(keys, key)
  /\ LET block == log[Last].last + 1 IN
       log' = Append(log, [log[Last] EXCEPT
         !.op = "sync", !.last = block, !.blocks = @ @@ (block :> {block})])
  /\ UNCHANGED <<said, broken, pc, view, plan>>

-----------------------------------------------------------------------------
\* A freezer reads under a lease, by the snapshot that it saw.
FRead(z) ==
  /\ pc[z] = "idle"
  /\ \E at \in 1..Last : Readable(Last, at) /\ plan' = [plan EXCEPT ![z].floor = at]
  /\ view' = [view EXCEPT ![z] = Last]
  /\ Goto(z, "read")
  /\ UNCHANGED <<log, keys, said, broken>>

FCommit(z) ==
  LET at == plan[z].floor IN
  /\ pc[z] = "read"
  /\ FreezeChecksReadable => Readable(Last, at)
  /\ log' = Append(log, [log[Last] EXCEPT !.op = "freeze", !.frozen = @ \cup {at}])
  /\ said' = (at :> Reads(view[z], at)) @@ said
  /\ Goto(z, "done")
  /\ UNCHANGED <<keys, broken, view, plan>>

DeleteVersion ==
  /\ Cardinality(log[Last].lost) < MaxDeletions
  /\ \E at \in log[Last].frozen :
       log' = Append(log, [log[Last] EXCEPT
         !.op = "delete", !.frozen = @ \ {at}, !.lost = @ \cup {<<at, Last + 1>>}])
  /\ UNCHANGED <<keys, said, broken, pc, view, plan>>

-----------------------------------------------------------------------------
\* What is kept of the blocks between two protected states goes into one, with the last one's
\* number; where all of it is kept nothing changes.
Interval(blocks, begin, end) ==
  LET inside == Up(blocks, begin, end)
      kept == Newest(Rows(inside))
      sources == {n \in DOMAIN inside : inside[n] \cap kept # {}}
  IN IF kept = Rows(inside) THEN [moved |-> <<>>, gone |-> {}]
     ELSE [moved |-> IF inside[Max(sources)] = kept THEN <<>> ELSE Max(sources) :> kept,
           gone |-> DOMAIN inside \ {Max(sources)}]

HistoryPlan(n, floor) ==
  LET known == {v \in Kept(n, floor) : v <= floor} \cup {floor}
      ends == {log[t].last : t \in known}
      done == FloorBlock(n)
      begin(end) == Max({0} \cup {e \in ends : e < end})
      \* An interval that a version parted, and parts no more, is looked at again.
      again == {log[v].last : v \in DeletedSince(n, log[n].floor) \ known}
      due(e) == e > done \/ \E last \in again : begin(e) < last /\ last < e
      parts == {Interval(log[n].blocks, begin(e), e) : e \in {e \in ends : due(e)}}
      moved == {p.moved : p \in parts} \ {<<>>}
      all[S \in SUBSET moved] ==
        IF S = {} THEN <<>> ELSE LET one == CHOOSE m \in S : TRUE IN one @@ all[S \ {one}]
  IN [moved |-> all[moved], gone |-> UNION {p.gone : p \in parts}, floor |-> floor,
      protected |-> ends]

CombinePlan(n) ==  \* the same bytes, elsewhere
  [moved |-> log[n].blocks, gone |-> {}, floor |-> log[n].floor, protected |-> {}]

VPlan(v) ==
  /\ pc[v] = "idle"
  /\ view' = [view EXCEPT ![v] = Last]
  /\ \/ /\ plan' = [plan EXCEPT ![v] = CombinePlan(Last)] /\ Goto(v, "combine")
     \/ \E floor \in (log[Last].floor + 1)..Last :
          plan' = [plan EXCEPT ![v] = HistoryPlan(Last, floor)] /\ Goto(v, "drop")
  /\ UNCHANGED <<log, keys, said, broken>>

MovedSince(n) == \E i \in (n + 1)..Last : log[i].op = "move"

VAnnounce(v) ==
  /\ pc[v] \in {"combine", "drop"}
  /\ CheckUnmovedSincePlan => ~MovedSince(view[v])
  /\ log' = Append(log, [log[Last] EXCEPT !.op = "start"])
  /\ view' = [view EXCEPT ![v] = Last + 1]
  /\ Goto(v, IF pc[v] = "drop" THEN "dropping" ELSE "combining")
  /\ UNCHANGED <<keys, said, broken, plan>>

StillHolds(v) ==
  /\ CheckUnmoved => ~MovedSince(view[v])
  /\ DropChecksFrozen =>
       \A version \in Kept(Last, plan[v].floor) :
         pc[v] = "dropping" =>
           \/ log[version].last >= log[plan[v].floor].last
           \/ log[version].last \in plan[v].protected

VMove(v) ==
  LET p == plan[v]
      old == log[Last].blocks
  IN
  /\ pc[v] \in {"combining", "dropping"} /\ StillHolds(v)
  /\ log' = Append(log, [log[Last] EXCEPT
       !.op = "move",
       !.blocks = [n \in DOMAIN old \ p.gone |-> IF n \in DOMAIN p.moved THEN p.moved[n] ELSE old[n]],
       !.floor = Max({@, p.floor})])
  /\ broken' = (broken \/ ~(DOMAIN p.moved \subseteq DOMAIN old))
  /\ view' = [view EXCEPT ![v] = Last + 1]
  /\ IF pc[v] = "dropping"  \* what is left is combined, by a plan made now
     THEN Goto(v, "dropped") /\ UNCHANGED plan
     ELSE Goto(v, "done") /\ plan' = [plan EXCEPT ![v] = NoPlan]
  /\ UNCHANGED <<keys, said>>

VPlanAgain(v) ==
  /\ pc[v] = "dropped"
  /\ plan' = [plan EXCEPT ![v] = CombinePlan(view[v])]
  /\ Goto(v, "combining")
  /\ UNCHANGED <<log, keys, said, broken, view>>

Next ==
  \/ \E key \in Keys : Sync(key)
  \/ DeleteVersion
  \/ \E z \in Freezers : FRead(z) \/ FCommit(z)
  \/ \E v \in Vacuums : VPlan(v) \/ VAnnounce(v) \/ VMove(v) \/ VPlanAgain(v)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

NoEntryBreaksTheLog == ~broken
VersionsReadTheSame ==
  \A at \in log[Last].frozen : Reads(Last, at) = said[at] /\ said[at] = Truth(at)
RetainedHistoryReads ==
  \A at \in 1..Last : Readable(Last, at) => Reads(Last, at) = Truth(at)

Symmetry == Permutations(Vacuums) \cup Permutations(Freezers)
=============================================================================
