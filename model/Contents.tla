------------------------------ MODULE Contents ------------------------------
(***************************************************************************)
(* Files that rows name: who may name which copy again, and who may delete *)
(* it.  A data file is named by the entry that brings it and by no other;  *)
(* a copy of a photo is named again by later syncs, changes and reverts,   *)
(* so that its bytes are stored once.                                      *)
(*                                                                         *)
(* A block and its list come and go together, as files of the module Lake; *)
(* so an entry has here what its lists name, and a snapshot what the lists *)
(* of all its blocks name, history included.  To read lists is one step:   *)
(* they never change, and where one is gone that is an error.  A commit is *)
(* one step as well: nothing comes between its look at what is announced   *)
(* and its entry, or the number is taken.  Whether a row goes by hash or   *)
(* by a name that it says makes no difference: a copy is a name.           *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Writers, Readers, Passers, Vacuums, Droppers,  \* Passers read without a lease
  Past,   \* the copy that is there at the beginning
  Again,  \* whether a writer's run commits twice
  \* The rules; docs/internals/model.md has a mutant for each.
  StoreFirst, KnownByLists, CheckAnnounced, KeepAnnounced, LostListRefuses, LookAgain,
  AnnounceFirst, NamesOnce, HeldByLeases, AgeByLists, UndropChecksAnnounced

VARIABLES
  log,     \* the entries
  stored,  \* the copies that are there
  lost,    \* the announcements whose list is gone, by their entries
  leases,  \* of each reader the transaction its lease says; 0 is no lease
  pc,      \* where each process is
  view,    \* the transaction up to which each process has read the log
  mine,    \* the copy that a writer's rows name
  plan     \* what a vacuum is about to do

vars == <<log, stored, lost, leases, pc, view, mine, plan>>
Procs == Writers \cup Readers \cup Passers \cup Vacuums \cup Droppers
NoPlan == [going |-> {}, hold |-> {}, at |-> 0]

-----------------------------------------------------------------------------
(* What the log says *)

Last == Len(log)
\* Of each entry: what its lists name, what all lists of the snapshot name that it makes, what it
\* announces, whether the table is dropped, and what an undrop would bring back.
Entry(op) == [op |-> op, adds |-> {}, needs |-> {}, doomed |-> {}, gone |-> FALSE, back |-> {}]
Needs(n) == log[n].needs
There == ~log[Last].gone
Added(after) == UNION {log[i].adds : i \in (after + 1)..Last}
DroppedBy(c) ==  \* the last entry after which no list names it any more; 0 where none did before
  LET by == {i \in 2..Last : c \in Needs(i - 1) \ Needs(i)}
  IN IF by = {} THEN 0 ELSE CHOOSE i \in by : \A j \in by : j <= i
Doomed == UNION {log[i].doomed : i \in 1..Last}
\* The last entry up to n that says that a vacuum is done: what was announced before it is not
\* kept for those who come later.
Finished(n) ==
  LET done == {i \in 1..n : log[i].op = "done"}
  IN IF done = {} THEN 0 ELSE CHOOSE i \in done : \A j \in done : j <= i
Moved(after) == \E i \in (after + 1)..Last : log[i].op \in {"forget", "drop", "undrop"}

\* What comes after a drop begins another table, but for what vacuums say.
Append1(entry) ==
  LET before == log[Last]
      begins == before.gone /\ entry.op = "sync"
  IN log' = Append(log, [entry EXCEPT
       !.needs = CASE entry.op = "drop" -> {}
                 [] entry.op = "undrop" -> before.back
                 [] entry.op = "forget" -> entry.needs
                 [] OTHER -> before.needs \cup entry.adds,
       !.gone = entry.op = "drop" \/ (before.gone /\ ~begins /\ entry.op # "undrop"),
       !.back = CASE entry.op = "drop" -> before.needs
                [] entry.op = "undrop" \/ begins -> {}
                [] UndropChecksAnnounced /\ before.back \cap entry.doomed # {} -> {}
                [] OTHER -> before.back])

-----------------------------------------------------------------------------
Init ==
  /\ log = <<[Entry("sync") EXCEPT !.adds = {Past}, !.needs = {Past}]>>
  /\ stored = {Past}
  /\ lost = {}
  /\ leases = [r \in Readers |-> 0]
  /\ pc = [p \in Procs |-> "idle"]
  /\ view = [p \in Procs |-> 0]
  /\ mine = [w \in Writers |-> {}]
  /\ plan = [v \in Vacuums |-> NoPlan]

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
See(p) == view' = [view EXCEPT ![p] = Last]

-----------------------------------------------------------------------------
(* Writers: syncs, and changes and reverts, which only name what is there *)

WBegin(w) ==
  /\ pc[w] = "idle"
  /\ See(w) /\ Goto(w, "begun")
  /\ UNCHANGED <<log, stored, lost, leases, mine, plan>>

Ready == [begun |-> "named", on |-> "named again"]
\* It finds the content among what the table names, or has stored it itself, and does not copy it.
WNameAgain(w) ==
  /\ pc[w] \in DOMAIN Ready
  /\ \E c \in (IF KnownByLists THEN Needs(view[w]) ELSE stored) \cup mine[w] :
       mine' = [mine EXCEPT ![w] = {c}]
  /\ Goto(w, Ready[pc[w]])
  /\ UNCHANGED <<log, stored, lost, leases, view, plan>>

\* A name that nobody had; or that which came with the row from another lake, by which these bytes
\* may have been here before, as long as the log has no announcement.
NewNames(w) ==
  {w} \cup (IF NamesOnce /\ \E i \in 1..view[w] : log[i].op = "start" THEN {} ELSE {Past})
WStore(w) ==
  /\ pc[w] \in DOMAIN Ready /\ w \notin mine[w]
  /\ \E c \in NewNames(w) :
       /\ mine' = [mine EXCEPT ![w] = {c}]
       /\ stored' = IF StoreFirst THEN stored \cup {c} ELSE stored
  /\ Goto(w, Ready[pc[w]])
  /\ UNCHANGED <<log, lost, leases, view, plan>>

\* Announced since the run began, or before it by a vacuum that was not done then.
Pending(w) ==
  {i \in (Finished(IF KeepAnnounced THEN view[w] ELSE Last) + 1)..Last : log[i].doomed # {}}
MayName(w) ==
  CheckAnnounced => \A i \in Pending(w) :
    IF i \in lost THEN ~LostListRefuses ELSE log[i].doomed \cap mine[w] = {}

WCommit(w) ==
  /\ pc[w] \in {"named", "named again"} /\ MayName(w)
  /\ Append1([Entry("sync") EXCEPT !.adds = mine[w]])
  /\ Goto(w, IF pc[w] = "named" /\ Again THEN "on" ELSE "done")
  /\ UNCHANGED <<stored, lost, leases, view, mine, plan>>

\* What it has stored it leaves: others may have found it, and a vacuum finds what nobody names.
WGiveUp(w) ==
  /\ pc[w] \in {"named", "named again"} /\ ~MayName(w)
  /\ Goto(w, "done")
  /\ UNCHANGED <<log, stored, lost, leases, view, mine, plan>>

Writer(w) == WBegin(w) \/ WNameAgain(w) \/ WStore(w) \/ WCommit(w) \/ WGiveUp(w)

-----------------------------------------------------------------------------
(* Readers with a lease, and copies of a lake, which read like them; and those without *)

REnd(r) ==
  /\ leases' = [leases EXCEPT ![r] = 0] /\ view' = [view EXCEPT ![r] = 0]
  /\ Goto(r, "done")

RLease(r) ==  \* by a manifest, which may be one transaction behind
  /\ pc[r] = "idle"
  /\ \E m \in {n \in 1..Last : n + 1 >= Last} :
       leases' = [leases EXCEPT ![r] = m] /\ view' = [view EXCEPT ![r] = m]
  /\ Goto(r, "leased")
  /\ UNCHANGED <<log, stored, lost, mine, plan>>

RReread(r) ==
  /\ pc[r] = "leased"
  /\ See(r) /\ Goto(r, "reading")
  /\ UNCHANGED <<log, stored, lost, leases, mine, plan>>

RRelease(r) ==
  /\ pc[r] = "reading"
  /\ REnd(r)
  /\ UNCHANGED <<log, stored, lost, mine, plan>>

Expires(r, v) ==  \* it stood still: its reader is asleep
  /\ pc[v] = "waiting" /\ r \in plan[v].hold /\ leases[r] > 0
  /\ REnd(r)
  /\ UNCHANGED <<log, stored, lost, mine, plan>>

PRead(r) ==
  /\ pc[r] = "idle"
  /\ See(r) /\ Goto(r, "reading")
  /\ UNCHANGED <<log, stored, lost, leases, mine, plan>>

PEnd(r) ==
  /\ pc[r] = "reading"
  /\ view' = [view EXCEPT ![r] = 0] /\ Goto(r, "done")
  /\ UNCHANGED <<log, stored, lost, leases, mine, plan>>

Reader(r) == RLease(r) \/ RReread(r) \/ RRelease(r)
Passer(r) == PRead(r) \/ PEnd(r)

-----------------------------------------------------------------------------
(* Vacuums *)

\* Its last row went longer ago than the retention, as the lists of blocks that are no more tell,
\* and who reads without a lease reads for less than it.  However old its file is.
Aged(c) ==
  AgeByLists => \A r \in Passers : pc[r] = "reading" => view[r] >= DroppedBy(c)

\* What no list names; or nothing, where only data files are to go.
VPlan(v) ==
  /\ pc[v] = "idle"
  /\ See(v)
  /\ \E going \in {{}, {c \in stored \ Needs(Last) : Aged(c)}} :
       plan' = [plan EXCEPT ![v].going = going, ![v].at = Last]
  /\ Goto(v, "planned")
  /\ UNCHANGED <<log, stored, lost, leases, mine>>

\* Without what lists name that have come since.
VAnnounce(v) ==
  LET going == IF LookAgain THEN plan[v].going \ Added(view[v]) ELSE plan[v].going IN
  /\ pc[v] = "planned" /\ ~Moved(view[v])
  /\ IF AnnounceFirst
     THEN /\ Append1([Entry("start") EXCEPT !.doomed = going])
          /\ view' = [view EXCEPT ![v] = Last + 1]
     ELSE UNCHANGED <<log, view>>
  /\ plan' = [plan EXCEPT ![v].going = going]
  /\ Goto(v, "announced")
  /\ UNCHANGED <<stored, lost, leases, mine>>

\* It drops the history up to its announcement; what came since stays.
VForget(v) ==
  /\ pc[v] = "announced" /\ ~Moved(view[v]) /\ Needs(view[v]) # {}
  /\ Append1([Entry("forget") EXCEPT !.needs = Added(view[v])])
  /\ view' = [view EXCEPT ![v] = Last + 1]
  /\ Goto(v, "forgot")
  /\ UNCHANGED <<stored, lost, leases, mine, plan>>

VListLeases(v) ==
  /\ pc[v] \in {"announced", "forgot"}
  /\ plan' = [plan EXCEPT ![v].hold = {r \in Readers : leases[r] > 0}]
  /\ Goto(v, "waiting")
  /\ UNCHANGED <<log, stored, lost, leases, view, mine>>

Protected(v, c) ==
  HeldByLeases /\ \E r \in plan[v].hold : leases[r] > 0 /\ leases[r] < DroppedBy(c)

\* With the copies go the lists of what was announced by others, and is done.
VDelete(v) ==
  /\ pc[v] = "waiting"
  /\ stored' = stored \ {c \in plan[v].going : ~Protected(v, c)}
  /\ lost' = lost \cup {i \in 1..Finished(plan[v].at) : log[i].doomed # {}}
  /\ plan' = [plan EXCEPT ![v] = NoPlan]
  /\ Goto(v, "deleted")
  /\ UNCHANGED <<log, leases, view, mine>>

VDone(v) ==
  /\ pc[v] = "deleted"
  /\ Append1(Entry("done"))
  /\ view' = [view EXCEPT ![v] = 0]
  /\ Goto(v, "done")
  /\ UNCHANGED <<stored, lost, leases, mine, plan>>

VGiveUp(v) ==  \* another has moved what it went by
  /\ pc[v] = "planned" /\ Moved(view[v])
  /\ plan' = [plan EXCEPT ![v] = NoPlan]
  /\ view' = [view EXCEPT ![v] = 0]
  /\ Goto(v, "done")
  /\ UNCHANGED <<log, stored, lost, leases, mine>>

Vacuum(v) ==
  \/ VPlan(v) \/ VAnnounce(v) \/ VForget(v) \/ VListLeases(v) \/ VDelete(v) \/ VDone(v)
  \/ VGiveUp(v)

-----------------------------------------------------------------------------
(* Who drops the table, and perhaps brings it back *)

DDrop(d) ==
  /\ pc[d] = "idle" /\ There
  /\ Append1(Entry("drop")) /\ Goto(d, "dropped")
  /\ UNCHANGED <<stored, lost, leases, view, mine, plan>>

DUndrop(d) ==
  /\ pc[d] = "dropped" /\ ~There /\ log[Last].back # {}
  /\ Append1(Entry("undrop")) /\ Goto(d, "done")
  /\ UNCHANGED <<stored, lost, leases, view, mine, plan>>

Dropper(d) == DDrop(d) \/ DUndrop(d)

Next ==
  \/ \E w \in Writers : Writer(w)
  \/ \E r \in Readers : Reader(r)
  \/ \E r \in Passers : Passer(r)
  \/ \E v \in Vacuums : Vacuum(v)
  \/ \E d \in Droppers : Dropper(d)
  \/ \E r \in Readers, v \in Vacuums : Expires(r, v)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

NeededContentExists == Needs(Last) \subseteq stored
NothingAnnouncedIsNamed == Needs(Last) \cap Doomed = {}
ReadersKeepTheirContent ==
  \A r \in Readers \cup Passers : pc[r] = "reading" => Needs(view[r]) \subseteq stored
RestorableContentExists == log[Last].back \subseteq stored

(* What must be reached *)
Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..10 : TLCSet(n, FALSE)
Waits(w) == pc[w] \in {"named", "named again"}
AllIsReached ==
  /\ Reached(1, "a copy is named again that a vacuum has announced since",
       \E w \in Writers : Waits(w) /\ mine[w] \cap Doomed # {})
  /\ Reached(2, "a writer passes an announcement whose list is gone",
       \E w \in Writers : Waits(w) /\ Pending(w) \cap lost # {})
  /\ Reached(3, "a copy was named again since a vacuum's plan",
       \E v \in Vacuums : pc[v] = "planned" /\ plan[v].going \cap Needs(Last) # {})
  /\ Reached(4, "a copy came back that no list had named for a while",
       \E c \in Needs(Last) : DroppedBy(c) > 0 /\ There)
  /\ Reached(5, "a lease keeps a copy from a vacuum",
       \E v \in Vacuums : pc[v] = "waiting" /\ \E c \in plan[v].going : Protected(v, c))
  /\ Reached(6, "a vacuum deletes, and another has said that it is done",
       \E v \in Vacuums : pc[v] = "waiting" /\ plan[v].going # {} /\ Finished(Last) > plan[v].at)
  /\ Reached(7, "a copy that was announced is there, and its announcement done",
       \E i \in 1..Finished(Last) : log[i].doomed \cap stored # {})
  /\ Reached(8, "a name that was given is stored again, and announced",
       \E w \in Writers : Waits(w) /\ mine[w] = {Past} /\ Past \in Doomed \cap stored)
DropsAreReached ==
  /\ Reached(9, "a copy of a dropped table is named by the next one",
       \E i \in 1..(Last - 1) : log[i].gone /\ There /\ log[i].back \cap Added(i) # {})
  /\ Reached(10, "the copies of a dropped table were announced", ~There /\ log[Last].back = {})

Symmetry == Permutations(Writers) \cup Permutations(Readers) \cup Permutations(Vacuums)
=============================================================================
