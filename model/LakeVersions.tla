---------------------------- MODULE LakeVersions ----------------------------
(***************************************************************************)
(* Many tables frozen as one.  Tables move while their heads are read, one *)
(* after another, for no store reads many logs at once; each table gets a  *)
(* version of its own, and the lake's log then gets an entry that names    *)
(* these.  A table's version is an entry of its log, too, so freezers move *)
(* tables for each other.                                                  *)
(*                                                                         *)
(* Files are left out, and what becomes of a table version afterwards:     *)
(* Lake and History are about them.                                        *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Tables, Freezers,
  MaxSyncs,         \* of all tables together
  LookTwice, ListAgain, FreezeAtCut, VersionsFirst, PutIfAbsent

VARIABLES
  all,     \* the entries of all tables, in the order in which they were committed
  lake,    \* the lake's log; of each number also who was told that it has it
  pc,
  listed,  \* of each freezer the tables that it looks at
  seen,    \* the heads that it has read in this look
  before,  \* those of the look before
  named,   \* the tables' versions that it will name
  slot     \* the number that it will take

vars == <<all, lake, pc, listed, seen, before, named, slot>>

-----------------------------------------------------------------------------
None == <<>>  \* no table has no head
Goto(f, place) == pc' = [pc EXCEPT ![f] = place]

\* The head of a table at a moment, which is how many entries there were of all tables.
HeadAt(m, t) == Cardinality({i \in 1..m : all[i].table = t})
HeadOf(t) == HeadAt(Len(all), t)
There == {t \in Tables : HeadOf(t) > 0}

\* The state that a table's first entries lead to: a freeze changes nothing.
State(t, n) == Cardinality({i \in 1..Len(all) : all[i].table = t /\ all[i].of = 0 /\ HeadAt(i, t) <= n})
Versions(t) == SelectSeq(all, LAMBDA e : e.table = t /\ e.of > 0)
Commit(t, of) == all' = Append(all, [table |-> t, of |-> of])

Init ==
  /\ all = <<>> /\ lake = <<>>
  /\ pc = [f \in Freezers |-> "list"]
  /\ listed = [f \in Freezers |-> {}]
  /\ seen = [f \in Freezers |-> None]
  /\ before = [f \in Freezers |-> None]
  /\ named = [f \in Freezers |-> None]
  /\ slot = [f \in Freezers |-> 0]

Sync(t) ==
  /\ Cardinality({i \in 1..Len(all) : all[i].of = 0}) < MaxSyncs
  /\ Commit(t, 0)
  /\ UNCHANGED <<lake, pc, listed, seen, before, named, slot>>

-----------------------------------------------------------------------------
FList(f) ==
  /\ pc[f] = "list" /\ There # {}
  /\ listed' = [listed EXCEPT ![f] = IF before[f] = None \/ ListAgain THEN There ELSE @]
  /\ seen' = [seen EXCEPT ![f] = None]
  /\ Goto(f, "look")
  /\ UNCHANGED <<all, lake, before, named, slot>>

FRead(f) ==
  /\ pc[f] = "look"
  /\ \E t \in listed[f] \ DOMAIN seen[f] : seen' = [seen EXCEPT ![f] = @ @@ (t :> HeadOf(t))]
  /\ UNCHANGED <<all, lake, pc, listed, before, named, slot>>

FCompare(f) ==
  /\ pc[f] = "look" /\ DOMAIN seen[f] = listed[f]
  /\ before' = [before EXCEPT ![f] = seen[f]]
  /\ Goto(f, IF ~LookTwice \/ seen[f] = before[f] THEN "cut" ELSE "list")
  /\ UNCHANGED <<all, lake, listed, seen, named, slot>>

Wanted(f, t) == State(t, seen[f][t])
Found(f, t) == {k \in 1..Len(Versions(t)) : Versions(t)[k].of = Wanted(f, t)}
Name(f, t, k) == named' = [named EXCEPT ![f] = @ @@ (t :> k)]
Missing(f) == listed[f] \ DOMAIN named[f]

FFind(f) ==
  /\ pc[f] = "cut" /\ VersionsFirst
  /\ \E t \in Missing(f) : \E k \in Found(f, t) : Name(f, t, k)
  /\ UNCHANGED <<all, lake, pc, listed, seen, before, slot>>

\* Also where another has made one since this one looked.
FMake(f) ==
  /\ pc[f] = "cut" /\ VersionsFirst
  /\ \E t \in Missing(f) :
       /\ Commit(t, IF FreezeAtCut THEN Wanted(f, t) ELSE State(t, HeadOf(t)))
       /\ Name(f, t, Len(Versions(t)) + 1)
  /\ UNCHANGED <<lake, pc, listed, seen, before, slot>>

FNameAhead(f) ==  \* only without the rule
  /\ pc[f] = "cut" /\ ~VersionsFirst
  /\ \E t \in Missing(f) : Name(f, t, Len(Versions(t)) + 1)
  /\ UNCHANGED <<all, lake, pc, listed, seen, before, slot>>

FNumber(f) ==
  /\ pc[f] = "cut" /\ Missing(f) = {}
  /\ slot' = [slot EXCEPT ![f] = Len(lake) + 1]
  /\ Goto(f, "put")
  /\ UNCHANGED <<all, lake, listed, seen, before, named>>

Taken(f) == slot[f] <= Len(lake)

FPut(f) ==
  LET entry == [heads |-> seen[f], versions |-> named[f], told |-> {f}]
  IN
  /\ pc[f] = "put" /\ ~(Taken(f) /\ PutIfAbsent)
  /\ lake' = IF Taken(f) THEN [lake EXCEPT ![slot[f]] = [entry EXCEPT !.told = @ \cup lake[slot[f]].told]]
             ELSE Append(lake, entry)
  /\ Goto(f, "done")
  /\ UNCHANGED <<all, listed, seen, before, named, slot>>

FRenumber(f) ==
  /\ pc[f] = "put" /\ Taken(f) /\ PutIfAbsent
  /\ Goto(f, "cut")
  /\ UNCHANGED <<all, lake, listed, seen, before, named, slot>>

Next ==
  \/ \E t \in Tables : Sync(t)
  \/ \E f \in Freezers :
       FList(f) \/ FRead(f) \/ FCompare(f) \/ FFind(f) \/ FMake(f) \/ FNameAhead(f) \/ FNumber(f)
       \/ FPut(f) \/ FRenumber(f)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold of each lake version *)

CutsAreOfOneMoment ==
  \A n \in DOMAIN lake : \E m \in 0..Len(all) : \A t \in Tables :
    HeadAt(m, t) = IF t \in DOMAIN lake[n].heads THEN lake[n].heads[t] ELSE 0
NamedVersionsExist ==
  \A n \in DOMAIN lake : \A t \in DOMAIN lake[n].versions :
    lake[n].versions[t] <= Len(Versions(t))
NamedVersionsAreOfTheCut ==
  \A n \in DOMAIN lake : \A t \in DOMAIN lake[n].versions :
    lake[n].versions[t] <= Len(Versions(t)) =>
      Versions(t)[lake[n].versions[t]].of = State(t, lake[n].heads[t])
NumbersAreWrittenOnce == \A n \in DOMAIN lake : Cardinality(lake[n].told) = 1

LiveSpec ==
  Spec /\ \A f \in Freezers :
    WF_vars(FList(f) \/ FRead(f) \/ FCompare(f) \/ FFind(f) \/ FMake(f) \/ FNumber(f)
            \/ FPut(f) \/ FRenumber(f))
\* As long as tables move for some time only; in the code patience has an end, too.
FreezersEnd == \A f \in Freezers : pc[f] = "look" ~> pc[f] = "done"

Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..4 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "a table has moved between two looks",
       \E f \in Freezers : pc[f] = "list" /\ \E t \in DOMAIN before[f] : HeadOf(t) # before[f][t])
  /\ Reached(2, "a table has begun between two looks",
       \E f \in Freezers : pc[f] = "list" /\ before[f] # None /\ There # DOMAIN before[f])
  /\ Reached(3, "a table has moved on from a cut, and gets a version of it",
       \E f \in Freezers : pc[f] = "cut" /\ \E t \in Missing(f) : State(t, HeadOf(t)) # Wanted(f, t))
  /\ Reached(4, "a lake version took the number that another was about to",
       \E f \in Freezers : pc[f] = "put" /\ Taken(f))

Symmetry == Permutations(Tables) \cup Permutations(Freezers)
=============================================================================
