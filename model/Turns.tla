------------------------------- MODULE Turns -------------------------------
(***************************************************************************)
(* Commits on a store that accepts conditions and ignores them: writers    *)
(* take turns by a lock of the table, which is a file like any other.      *)
(*                                                                         *)
(* Time is ages: each process knows how long ago it did something, and     *)
(* Tick makes all of them older.  A write arrives within Settle of its     *)
(* beginning.  A process may stand still anywhere and for ever, but for    *)
(* one place: between its last look at the lock and its entry's beginning  *)
(* it stands still for Held at most, or for ever.  That is the assumption; *)
(* docs/internals/promises.md shows what is lost where it does not hold.   *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Writers, None,
  Settle,   \* a write is seen by all so long after its beginning, at most
  Wait,     \* how long a writer waits before it reads its lock back
  Stale,    \* how long a writer trusts its lock
  Patience, \* a waiter takes over a lock that stood still for so long
  Held,     \* the longest time from the look at the lock to the entry's beginning
  Beats,    \* how often a writer tries to take the lock, at most
  LockRecheck, ReadBackEntry, GiveWayWhenSlow, DistrustOldLock

VARIABLES
  lock,     \* what the lock's file says: whose it is, and which try wrote it
  entries,  \* of each number, whose entry is there
  acked,    \* of each writer, the number it was acknowledged; 0 before
  pc, beat, number, flying, seen,
  age       \* of each writer, how long ago: began, waits, checked, saw

vars == <<lock, entries, acked, pc, beat, number, flying, seen, age>>

Numbers == 1..Cardinality(Writers)
Old == Stale + Wait + 1
Nothing == [what |-> None, left |-> 0]

Init ==
  /\ lock = None
  /\ entries = [n \in Numbers |-> None]
  /\ acked = [w \in Writers |-> 0]
  /\ pc = [w \in Writers |-> "idle"]
  /\ beat = [w \in Writers |-> 0]
  /\ number = [w \in Writers |-> 0]
  /\ flying = [w \in Writers |-> Nothing]
  /\ seen = [w \in Writers |-> None]
  /\ age = [w \in Writers |-> [began |-> 0, waits |-> 0, checked |-> 0, saw |-> 0]]

Goto(w, place) == pc' = [pc EXCEPT ![w] = place]
Mine(w) == <<w, beat[w]>>
Begin(w, what) == flying' = [flying EXCEPT ![w] = [what |-> what, left |-> Settle]]
IsFlying(w) == flying[w].what # None

-----------------------------------------------------------------------------
(* Taking the lock: look, write, wait, read back *)

Look(w) ==
  /\ pc[w] = "idle" /\ beat[w] < Beats /\ ~IsFlying(w)
  /\ \/ /\ lock = None \/ (lock = seen[w] /\ age[w].saw >= Patience)
        /\ beat' = [beat EXCEPT ![w] = @ + 1]
        /\ age' = [age EXCEPT ![w].began = 0, ![w].saw = 0]
        /\ seen' = [seen EXCEPT ![w] = None]
        /\ Goto(w, "looked")
     \/ /\ lock # None /\ lock # seen[w]
        /\ seen' = [seen EXCEPT ![w] = lock]
        /\ age' = [age EXCEPT ![w].saw = 0]
        /\ UNCHANGED <<pc, beat>>
  /\ UNCHANGED <<lock, entries, acked, number, flying>>

WriteLock(w) ==
  /\ pc[w] = "looked"
  /\ Begin(w, "lock")
  /\ age' = [age EXCEPT ![w].waits = 0]
  /\ Goto(w, IF GiveWayWhenSlow /\ age[w].began > Settle THEN "slow" ELSE "settling")
  /\ UNCHANGED <<lock, entries, acked, beat, number, seen>>

GiveWay(w) ==
  /\ pc[w] = "slow"
  /\ lock' = IF lock = Mine(w) THEN None ELSE lock
  /\ Goto(w, "idle")
  /\ UNCHANGED <<entries, acked, beat, number, flying, seen, age>>

ReadLockBack(w) ==
  /\ pc[w] = "settling" /\ age[w].waits >= Wait
  /\ Goto(w, IF lock = Mine(w) THEN "locked" ELSE "idle")
  /\ UNCHANGED <<lock, entries, acked, beat, number, flying, seen, age>>

-----------------------------------------------------------------------------
(* The entry, under the lock *)

FindFree(w) ==
  /\ pc[w] = "locked" /\ \E n \in Numbers : entries[n] = None
  /\ number' = [number EXCEPT ![w] =
       CHOOSE n \in Numbers : entries[n] = None /\ \A m \in 1..(n - 1) : entries[m] # None]
  /\ Goto(w, "free")
  /\ UNCHANGED <<lock, entries, acked, beat, flying, seen, age>>

Trusted(w) ==
  /\ lock = Mine(w)
  /\ DistrustOldLock => age[w].began < Stale

Check(w) ==
  /\ pc[w] = "free"
  /\ age' = [age EXCEPT ![w].checked = 0]
  /\ Goto(w, IF LockRecheck => Trusted(w) THEN "checked" ELSE "failed")
  /\ UNCHANGED <<lock, entries, acked, beat, number, flying, seen>>

WriteEntry(w) ==
  /\ pc[w] = "checked"
  /\ Begin(w, "entry")
  /\ age' = [age EXCEPT ![w].waits = 0]
  /\ Goto(w, "written")
  /\ UNCHANGED <<lock, entries, acked, beat, number, seen>>

Dies(w) ==
  /\ pc[w] = "checked"
  /\ Goto(w, "failed")
  /\ UNCHANGED <<lock, entries, acked, beat, number, flying, seen, age>>

ReadBack(w) ==
  /\ pc[w] = "written"
  /\ ReadBackEntry => age[w].waits > Settle
  /\ IF ReadBackEntry => entries[number[w]] = w
     THEN acked' = [acked EXCEPT ![w] = number[w]] /\ Goto(w, "release")
     ELSE acked' = acked /\ Goto(w, "locked")
  /\ UNCHANGED <<lock, entries, beat, number, flying, seen, age>>

Release(w) ==
  /\ pc[w] = "release"
  /\ lock' = IF lock = Mine(w) /\ age[w].began < Stale THEN None ELSE lock
  /\ Goto(w, "done")
  /\ UNCHANGED <<entries, acked, beat, number, flying, seen, age>>

-----------------------------------------------------------------------------
Arrives(w) ==
  /\ IsFlying(w)
  /\ IF flying[w].what = "lock"
     THEN lock' = Mine(w) /\ UNCHANGED entries
     ELSE entries' = [entries EXCEPT ![number[w]] = w] /\ UNCHANGED lock
  /\ flying' = [flying EXCEPT ![w] = Nothing]
  /\ UNCHANGED <<acked, pc, beat, number, seen, age>>

Older(n) == IF n < Old THEN n + 1 ELSE n
Tick ==
  /\ \A w \in Writers : IsFlying(w) => flying[w].left > 0
  /\ \A w \in Writers : pc[w] = "checked" => age[w].checked < Held
  /\ age' = [w \in Writers |->
       [began |-> IF pc[w] \in {"looked", "settling", "locked", "free", "checked", "written", "release"} THEN Older(age[w].began) ELSE 0,
        waits |-> IF pc[w] \in {"settling", "written"} THEN Older(age[w].waits) ELSE 0,
        checked |-> IF pc[w] = "checked" THEN Older(age[w].checked) ELSE 0,
        saw |-> IF seen[w] # None THEN Older(age[w].saw) ELSE 0]]
  /\ flying' = [w \in Writers |-> [flying[w] EXCEPT !.left = IF @ > 0 THEN @ - 1 ELSE 0]]
  /\ UNCHANGED <<lock, entries, acked, pc, beat, number, seen>>

Writer(w) ==
  \/ Look(w) \/ WriteLock(w) \/ GiveWay(w) \/ ReadLockBack(w) \/ FindFree(w) \/ Check(w)
  \/ WriteEntry(w) \/ Dies(w) \/ ReadBack(w) \/ Release(w) \/ Arrives(w)

Next == Tick \/ \E w \in Writers : Writer(w)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

AcknowledgedInLog == \A w \in Writers : acked[w] > 0 => entries[acked[w]] = w
OneWriterOfANumber ==
  \A v, w \in Writers : v # w /\ acked[v] > 0 => acked[v] # acked[w]
NoGap == \A n \in Numbers : entries[n] # None => \A m \in 1..(n - 1) : entries[m] # None

Symmetry == Permutations(Writers)
=============================================================================
