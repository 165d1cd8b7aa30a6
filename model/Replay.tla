------------------------------- MODULE Replay -------------------------------
(***************************************************************************)
(* Rejected records that become rows: lines of a dead-letter table, which  *)
(* has a log of its own, are replayed into the table.  No commit is atomic *)
(* over both logs, and a replay may die anywhere.                          *)
(*                                                                         *)
(* An event is a line and the block in which it was rejected.  Blocks and  *)
(* rows take their numbers from one clock, so that a number is a time too. *)
(* Each line has a key of its own.                                         *)
(*                                                                         *)
(* A copy may have the table without its dead-letter table: then it gets   *)
(* another, whose blocks are numbered from 1 again.                        *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Replayers, Lines, None,
  MaxSyncs, MaxRejections, MaxRuns, MaxCopies,
  Keyed,                                \* whether the table has a key
  RowsFirst, Conditional, LogSays, ByBlock, ById, NotOlder

VARIABLES
  log,      \* of the table
  top,      \* of each line's key, the time of its newest row
  rejected, \* of each line, the block in which it is rejected; 0 where it is not
  ever,     \* all events
  older,    \* whether a record replaced a newer row
  clock,
  id,       \* of the dead-letter table
  begun,    \* when it was: its blocks are numbered from then on
  pc, me, runs

vars == <<log, top, rejected, ever, older, clock, id, begun, pc, me, runs>>
own == <<id, begun>>

Nothing == [head |-> 0, last |-> 0, picks |-> {}]
Entry(op, events, last) == [op |-> op, events |-> events, last |-> last, of |-> id]
Block(time) == time - begun
Count(op) == Cardinality({i \in DOMAIN log : log[i].op = op})
LinesOf(events) == {e[1] : e \in events}

Init ==
  /\ log = <<>> /\ clock = 0 /\ runs = 0 /\ older = FALSE /\ ever = {}
  /\ id = 1 /\ begun = 0
  /\ top = [l \in Lines |-> 0]
  /\ rejected = [l \in Lines |-> 0]
  /\ pc = [p \in Replayers |-> "idle"]
  /\ me = [p \in Replayers |-> Nothing]

Sync(l) ==  \* a row of the line's key
  /\ Count("sync") < MaxSyncs
  /\ clock' = clock + 1
  /\ top' = [top EXCEPT ![l] = clock + 1]
  /\ log' = Append(log, Entry("sync", {<<l, clock + 1>>}, 0))
  /\ UNCHANGED <<rejected, ever, older, own, pc, me, runs>>

Reject(l) ==  \* for the first time, or again: by its digest it is one row
  /\ Cardinality(ever) < MaxRejections
  /\ clock' = clock + 1
  /\ rejected' = [rejected EXCEPT ![l] = clock + 1]
  /\ ever' = ever \cup {<<l, clock + 1>>}
  /\ UNCHANGED <<log, top, older, own, pc, me, runs>>

Copy ==  \* what is looked at from now on is the copy
  /\ id <= MaxCopies
  /\ id' = id + 1 /\ begun' = clock
  /\ rejected' = [l \in Lines |-> 0] /\ ever' = {}
  /\ pc' = [p \in Replayers |-> "idle"]
  /\ me' = [p \in Replayers |-> Nothing]
  /\ UNCHANGED <<log, top, older, clock, runs>>

-----------------------------------------------------------------------------
(* A replay *)

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
\* What the table's log says of an event.
Replayed(l, time) ==
  \E i \in DOMAIN log :
    /\ log[i].op = "replay" /\ l \in LinesOf(log[i].events)
    /\ ByBlock => Block(time) <= log[i].last
    /\ ById => log[i].of = id
Newer(l) == Keyed /\ top[l] > rejected[l]
Candidates ==
  {<<l, rejected[l]>> : l \in {k \in Lines :
     /\ rejected[k] # 0
     /\ LogSays => ~Replayed(k, rejected[k])
     /\ NotOlder => ~Newer(k)}}

PRead(p) ==
  /\ pc[p] = "idle" /\ runs < MaxRuns
  /\ runs' = runs + 1
  /\ me' = [me EXCEPT ![p] = [head |-> Len(log), last |-> Block(clock), picks |-> Candidates]]
  /\ Goto(p, IF Candidates = {} \/ ~RowsFirst THEN "settle" ELSE "commit")
  /\ UNCHANGED <<log, top, rejected, ever, older, clock, own>>

Moved(p) ==
  \E i \in (me[p].head + 1)..Len(log) :
    \/ log[i].op = "replay"
    \/ Keyed /\ log[i].op = "sync" /\ LinesOf(log[i].events) \cap LinesOf(me[p].picks) # {}

PAgain(p) ==
  /\ pc[p] = "commit" /\ Conditional /\ Moved(p)
  /\ Goto(p, "idle")
  /\ UNCHANGED <<log, top, rejected, ever, older, clock, own, me, runs>>

PCommit(p) ==
  LET picks == me[p].picks
      time(l) == CHOOSE t \in {e[2] : e \in picks} : <<l, t>> \in picks
  IN
  /\ pc[p] = "commit" /\ ~(Conditional /\ Moved(p))
  /\ log' = Append(log, Entry("replay", picks, me[p].last))
  /\ older' = (older \/ (Keyed /\ \E e \in picks : top[e[1]] > e[2]))
  /\ top' = [l \in Lines |-> IF l \in LinesOf(picks) THEN time(l) ELSE top[l]]
  /\ Goto(p, IF RowsFirst THEN "settle" ELSE "idle")
  /\ UNCHANGED <<rejected, ever, clock, own, me, runs>>

Goes(p, l) ==
  IF RowsFirst THEN Replayed(l, rejected[l]) ELSE <<l, rejected[l]>> \in me[p].picks

PSettle(p) ==
  /\ pc[p] = "settle"
  /\ rejected' = [l \in Lines |-> IF Goes(p, l) THEN 0 ELSE rejected[l]]
  /\ Goto(p, IF RowsFirst \/ me[p].picks = {} THEN "idle" ELSE "commit")
  /\ UNCHANGED <<log, top, ever, older, clock, own, me, runs>>

Next ==
  \/ \E l \in Lines : Sync(l) \/ Reject(l)
  \/ Copy
  \/ \E p \in Replayers : PRead(p) \/ PAgain(p) \/ PCommit(p) \/ PSettle(p)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

RowsOf(e) == {i \in DOMAIN log : log[i].op = "replay" /\ e \in log[i].events}
RecordsAreSomewhere ==
  \A e \in ever :
    \/ rejected[e[1]] = e[2] \/ RowsOf(e) # {}
    \/ \E d \in ever : d[1] = e[1] /\ d[2] > e[2]
RowsComeOnce == \A e \in ever : Cardinality(RowsOf(e)) <= 1
NewerRowsStay == ~older

LiveSpec ==
  Spec /\ \A p \in Replayers : WF_vars(PAgain(p) \/ PCommit(p) \/ PSettle(p))
ReplaysEnd == \A p \in Replayers : pc[p] # "idle" ~> pc[p] = "idle"

Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..5 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "a record is a row, and on the list still",
       \E l \in Lines : rejected[l] # 0 /\ Replayed(l, rejected[l]))
  /\ Reached(2, "a line is rejected again while it is replayed",
       \E p \in Replayers : pc[p] = "commit" /\ \E e \in me[p].picks : rejected[e[1]] > e[2])
  /\ Reached(3, "another replay came first",
       \E p \in Replayers : pc[p] = "commit" /\ \E i \in (me[p].head + 1)..Len(log) :
         log[i].op = "replay")
  /\ Reached(4, "a newer row keeps a record out",
       \E l \in Lines : rejected[l] # 0 /\ Newer(l))
  /\ Reached(5, "a copy rejects a line again, in a block of the same number",
       \E l \in Lines, i \in DOMAIN log :
         /\ log[i].op = "replay" /\ l \in LinesOf(log[i].events) /\ log[i].of # id
         /\ rejected[l] # 0 /\ Block(rejected[l]) <= log[i].last)

Symmetry == Permutations(Replayers) \cup Permutations(Lines)
=============================================================================
