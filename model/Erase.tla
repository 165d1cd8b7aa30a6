------------------------------- MODULE Erase -------------------------------
(***************************************************************************)
(* Erasing rows: an erasure rewrites the files that hold somebody's rows,  *)
(* announces and commits that, replaces what the log's entries said of     *)
(* versions before, and deletes what had the rows, once nobody reads it.   *)
(* Whoever comes later goes on with what one that died has left, be it     *)
(* another erasure or a vacuum.                                            *)
(*                                                                         *)
(* A file is the set of the rows that are in it, and has a name that       *)
(* nobody had.  A row says whose it is and who wrote it; each is a block   *)
(* of its own, and a snapshot says in which file that block lies.  So a    *)
(* state is read from what is there, and held against what the log says    *)
(* that it was.  A fingerprint is the set of rows that it is over.         *)
(*                                                                         *)
(* Erasures and vacuums take turns by a lock, and one that stood still may *)
(* lose it at any time.  Here there is none: what holds, holds without it. *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Erasers, Writers, Freezers, Readers, Makers, Vacuums,  \* Makers make indexes
  Persons, Nobody,  \* whose rows there are: of who may be erased, and of nobody in particular
  Past,             \* who wrote what is there at the beginning
  Attempts,         \* how often an erasure, or a vacuum, begins
  \* The rules; docs/internals/model.md has a mutant for each.
  AnnounceErasure, LookForComers, CompareVersions, CheckUnmoved, CheckDoomed, FreezeChecksErased,
  WaitForLeases, IndexKnowsErasures, ReplaceIfSame, LeaveNewer, ReplaceInPlace, KeepChain,
  LookUntilNothing

VARIABLES
  log,       \* of each transaction, what it does and the snapshot that it makes
  entries,   \* of each transaction, what its entry says now that may be replaced
  disk,      \* of each file that is there, the rows in it
  leases,    \* of each reader the transaction its lease says; 0 is no lease
  pc, view,  \* where each process is, and the transaction up to which it has read the log
  mine,      \* the file that a process has written, and not yet committed
  plan,      \* what an erasure or a vacuum is about to do
  finished,  \* the last erasure that somebody was told is finished
  late       \* files that were written for a plan from before an erasure, after it

vars == <<log, entries, disk, leases, pc, view, mine, plan, finished, late>>
Leased == Readers \cup Makers
Workers == Erasers \cup Vacuums
Procs == Workers \cup Writers \cup Freezers \cup Leased
NoPlan == [who |-> Nobody, files |-> {}, says |-> <<>>, told |-> <<>>, knows |-> 0, next |-> 0,
           read |-> <<>>, going |-> {}, hold |-> {}, tries |-> 0]

-----------------------------------------------------------------------------
(* What the log says *)

Last == Len(log)
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
RowsAt(n) == log[n].rows
Erased(n) == log[n].erased
Files(n) == {log[n].where[r] : r \in RowsAt(n)}
DroppedBy(f) ==  \* 0 for a file that was never in the log
  LET by == {i \in 2..Last : f \in Files(i - 1) \ Files(i)} IN IF by = {} THEN 0 ELSE Max(by)
Doomed(after) == UNION {log[i].deletes : i \in (after + 1)..Last}
Since(n, op) == \E i \in (n + 1)..Last : log[i].op = op
Moved(after) == Since(after, "move") \/ Since(after, "erase")
Erasures(n) == {i \in 1..n : log[i].op = "erase"}
LastErasure(n) == Max({0} \cup Erasures(n))
Announced(erasure) == Max({0} \cup {i \in 1..erasure : log[i].op = "erase-start"})
Versions(n) == {i \in 1..n : log[i].op = "freeze"}

\* What a state is, by the files that the snapshot at n names.
In(f) == IF f \in DOMAIN disk THEN disk[f] ELSE {}
Reads(n, at) == {r \in RowsAt(at) : r \in In(log[n].where[r])}

\* What entries say of versions: each its own, and an erasure of those that it took rows from.
Says(i) == entries[i].says
Says0(i) == log[i].says
Claim(v) == Says(Max({i \in v..Last : v \in DOMAIN Says(i)}))[v]

Append1(op, more) ==
  LET before == IF Last = 0 THEN [rows |-> {}, where |-> <<>>, erased |-> {}] ELSE log[Last]
      entry == more @@ [op |-> op, of |-> 0, deletes |-> {}, says |-> <<>>, rows |-> before.rows,
                        where |-> before.where, erased |-> before.erased]
  IN /\ log' = Append(log, entry)
     /\ entries' = Append(entries, [says |-> entry.says, by |-> 0, there |-> TRUE, chain |-> Last + 1,
                                    after |-> IF Last = 0 THEN 0 ELSE entries[Last].chain])

-----------------------------------------------------------------------------
(* A row of everybody in one file, a version that has them, and what a dead writer left of them *)

Old(n) == <<Past, n>>
Rows0 == {<<who, Past>> : who \in Persons \cup {Nobody}}
Init ==
  LET where == [r \in Rows0 |-> Old(1)]
      first == [op |-> "sync", of |-> 0, deletes |-> {}, says |-> <<>>, rows |-> Rows0,
                where |-> where, erased |-> {}]
      frozen == [first EXCEPT !.op = "freeze", !.of = 1, !.says = (2 :> Rows0)]
  IN
  /\ log = <<first, frozen>>
  /\ entries = <<[says |-> <<>>, by |-> 0, there |-> TRUE, chain |-> 1, after |-> 0],
                 [says |-> frozen.says, by |-> 0, there |-> TRUE, chain |-> 2, after |-> 1]>>
  /\ disk = (Old(1) :> Rows0) @@ (Old(2) :> Rows0)
  /\ leases = [r \in Leased |-> 0]
  /\ pc = [p \in Procs |-> "idle"]
  /\ view = [p \in Procs |-> 0]
  /\ mine = [p \in Workers \cup Writers |-> {}]
  /\ plan = [p \in Workers |-> NoPlan]
  /\ finished = 0 /\ late = {}

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
See(p) == view' = [view EXCEPT ![p] = Last]
Without(files) == [f \in DOMAIN disk \ files |-> disk[f]]

-----------------------------------------------------------------------------
(* Writers, who bring a row of somebody, or of nobody *)

WPublish(w) ==
  /\ pc[w] = "idle"
  /\ \E who \in Persons \cup {Nobody} : disk' = (<<w, 1>> :> {<<who, w>>}) @@ disk
  /\ mine' = [mine EXCEPT ![w] = {<<w, 1>>}]
  /\ See(w) /\ Goto(w, "published")
  /\ UNCHANGED <<log, entries, leases, plan, finished, late>>

NotDoomed(p) == ~CheckDoomed \/ mine[p] \cap Doomed(view[p]) = {}

WCommit(w) ==
  /\ pc[w] = "published" /\ NotDoomed(w)
  /\ LET rows == {<<who, w>> : who \in {r[1] : r \in In(<<w, 1>>)}} IN
       Append1("sync", [rows |-> RowsAt(Last) \cup rows,
                        where |-> [r \in rows |-> <<w, 1>>] @@ log[Last].where])
  /\ mine' = [mine EXCEPT ![w] = {}]
  /\ Goto(w, "done")
  /\ UNCHANGED <<disk, leases, view, plan, finished, late>>

WWithdraw(w) ==
  /\ pc[w] = "published" /\ ~NotDoomed(w)
  /\ disk' = Without(mine[w]) /\ mine' = [mine EXCEPT ![w] = {}]
  /\ Goto(w, "done")
  /\ UNCHANGED <<log, entries, leases, view, plan, finished, late>>

Writer(w) == WPublish(w) \/ WCommit(w) \/ WWithdraw(w)

-----------------------------------------------------------------------------
(* Freezers, readers, and those who make an index *)

FRead(z) ==
  /\ pc[z] = "idle"
  /\ See(z) /\ Goto(z, "read")
  /\ UNCHANGED <<log, entries, disk, leases, mine, plan, finished, late>>

MayFreeze(z) == ~(FreezeChecksErased /\ Since(view[z], "erase"))

\* What it has read is what the snapshot was when it was seen: its lease is a reader's.
FCommit(z) ==
  /\ pc[z] = "read" /\ MayFreeze(z)
  /\ Append1("freeze", [of |-> view[z], says |-> (Last + 1 :> RowsAt(view[z]) \ Erased(view[z]))])
  /\ Goto(z, "done")
  /\ UNCHANGED <<disk, leases, view, mine, plan, finished, late>>

FGiveUp(z) ==
  /\ pc[z] = "read" /\ ~MayFreeze(z)
  /\ Goto(z, "done")
  /\ UNCHANGED <<log, entries, disk, leases, view, mine, plan, finished, late>>

Freezer(z) == FRead(z) \/ FCommit(z) \/ FGiveUp(z)

REnd(r) == leases' = [leases EXCEPT ![r] = 0] /\ Goto(r, "done")

RLease(r) ==
  /\ pc[r] = "idle"
  /\ leases' = [leases EXCEPT ![r] = Last] /\ See(r) /\ Goto(r, "leased")
  /\ UNCHANGED <<log, entries, disk, mine, plan, finished, late>>

RReread(r) ==
  /\ pc[r] = "leased"
  /\ See(r) /\ Goto(r, "reading")
  /\ UNCHANGED <<log, entries, disk, leases, mine, plan, finished, late>>

RRelease(r) ==
  /\ pc[r] = "reading" /\ r \in Readers
  /\ REnd(r)
  /\ UNCHANGED <<log, entries, disk, view, mine, plan, finished, late>>

\* Of the state that it read.  Its marker says of which, and which erasures that knows.
MWrite(m) ==
  /\ pc[m] = "reading" /\ m \in Makers
  /\ disk' = (<<m, 1>> :> RowsAt(view[m]) \ Erased(view[m])) @@ disk
  /\ REnd(m)
  /\ UNCHANGED <<log, entries, view, mine, plan, finished, late>>

\* Its lease stood still: it is asleep, and what it reads from now on is its rows or an error.
Expires(r, p) ==
  /\ pc[p] = "waiting" /\ r \in plan[p].hold /\ leases[r] > 0
  /\ REnd(r)
  /\ UNCHANGED <<log, entries, disk, view, mine, plan, finished, late>>

Reader(r) == RLease(r) \/ RReread(r) \/ RRelease(r) \/ MWrite(r)

IsIndex(f) == f[1] \in Makers
\* An index that a reader of the head goes by.
Trusted(f) ==
  IsIndex(f) /\ (IndexKnowsErasures => LastErasure(view[f[1]]) = LastErasure(Last))

-----------------------------------------------------------------------------
(* Erasures, up to the commit *)

Hers(e, n) == {r \in RowsAt(n) \ Erased(n) : r[1] = plan[e].who}
New(p) == <<p, plan[p].tries>>

EPlan(e) ==
  /\ pc[e] \in {"idle", "again"} /\ plan[e].tries < Attempts
  /\ \E who \in IF pc[e] = "idle" THEN Persons ELSE {plan[e].who} :
       LET rows == {r \in RowsAt(Last) \ Erased(Last) : r[1] = who}
       IN /\ plan' = [plan EXCEPT ![e] = [NoPlan EXCEPT
                        !.who = who, !.files = {log[Last].where[r] : r \in rows},
                        !.tries = plan[e].tries + 1]]
          /\ Goto(e, IF rows = {} THEN "committed" ELSE "planned")
  /\ See(e)
  /\ UNCHANGED <<log, entries, disk, leases, mine, finished, late>>

\* All rows of these files but hers; and it is proved what versions are without them.
EWrite(e) ==
  LET her == Hers(e, view[e])
      old == {r \in RowsAt(view[e]) : log[view[e]].where[r] \in plan[e].files}
      had == {v \in Versions(view[e]) : her \cap RowsAt(log[v].of) # {}}
  IN
  /\ pc[e] = "planned" /\ plan[e].files \subseteq DOMAIN disk
  /\ disk' = (New(e) :> (old \cap UNION {disk[f] : f \in plan[e].files}) \ her) @@ disk
  /\ mine' = [mine EXCEPT ![e] = {New(e)}]
  /\ late' = IF Since(view[e], "erase") THEN late \cup {New(e)} ELSE late
  /\ plan' = [plan EXCEPT ![e].says =
                [v \in had |-> RowsAt(log[v].of) \ (Erased(view[e]) \cup her)]]
  /\ Goto(e, "written")
  /\ UNCHANGED <<log, entries, leases, view, finished>>

MayAnnounce(e) == ~(CheckUnmoved /\ Moved(view[e]))
EAnnounce(e) ==
  /\ pc[e] = "written" /\ MayAnnounce(e)
  /\ IF AnnounceErasure
     THEN Append1("erase-start", [deletes |-> plan[e].files])
     ELSE UNCHANGED <<log, entries>>
  /\ Goto(e, "announced")
  /\ UNCHANGED <<disk, leases, view, mine, plan, finished, late>>

Came(e) == {r \in RowsAt(Last) \ RowsAt(view[e]) : r[1] = plan[e].who}
MayErase(e) ==
  /\ ~(CheckUnmoved /\ Moved(view[e]))
  /\ CompareVersions => Versions(Last) = Versions(view[e])
  /\ LookForComers => Came(e) = {}
  /\ NotDoomed(e)

ECommit(e) ==
  LET old == {r \in RowsAt(view[e]) : log[view[e]].where[r] \in plan[e].files} IN
  /\ pc[e] = "announced" /\ MayErase(e)
  /\ Append1("erase", [
       says |-> plan[e].says,
       where |-> [r \in old |-> CHOOSE f \in mine[e] : TRUE] @@ log[Last].where,
       erased |-> Erased(Last) \cup {r \in RowsAt(Last) : r[1] = plan[e].who}])
  /\ mine' = [mine EXCEPT ![e] = {}]
  /\ Goto(e, "committed")
  /\ UNCHANGED <<disk, leases, view, plan, finished, late>>

EGiveUp(e) ==  \* it takes back what it wrote, and begins anew
  /\ \/ pc[e] = "planned" /\ ~(plan[e].files \subseteq DOMAIN disk)
     \/ pc[e] = "written" /\ ~MayAnnounce(e)
     \/ pc[e] = "announced" /\ ~MayErase(e)
  /\ disk' = Without(mine[e]) /\ mine' = [mine EXCEPT ![e] = {}]
  /\ Goto(e, "again")
  /\ UNCHANGED <<log, entries, leases, view, plan, finished, late>>

-----------------------------------------------------------------------------
(* What an erasure and each later vacuum do then: seal entries anew, one by one *)

\* What all erasures have left of versions, by the last word on each, and which one has it.
Told ==
  LET of(v) == {i \in Erasures(Last) : v \in DOMAIN Says(i)}
  IN [v \in {v \in Versions(Last) : of(v) # {}} |->
        [by |-> Max(of(v)), rows |-> Says(Max(of(v)))[v]]]

SLook(p) ==
  /\ pc[p] = "committed"
  /\ plan' = [plan EXCEPT ![p].told = Told, ![p].knows = LastErasure(Last)]
  /\ Goto(p, "sealing")
  /\ UNCHANGED <<log, entries, disk, leases, view, mine, finished, late>>

Anew(p, i) ==  \* what an entry is to say of versions
  [v \in DOMAIN Says(i) |->
     IF v \in DOMAIN plan[p].told /\ plan[p].told[v].by > i THEN plan[p].told[v].rows ELSE Says(i)[v]]
Stale(p) ==
  {i \in 1..plan[p].knows :
     Anew(p, i) # Says(i) /\ (LeaveNewer => entries[i].by <= Announced(plan[p].knows))}

SRead(p) ==
  /\ pc[p] = "sealing" /\ Stale(p) # {}
  /\ LET i == Min(Stale(p)) IN plan' = [plan EXCEPT ![p].next = i, ![p].read = entries[i]]
  /\ Goto(p, "replacing")
  /\ UNCHANGED <<log, entries, disk, leases, view, mine, finished, late>>

\* Only if it is what was read; else it is read again.
SReplace(p) ==
  LET i == plan[p].next
      says == Anew(p, i)
      by == Max({plan[p].read.by, Announced(plan[p].knows)})
  IN
  /\ pc[p] = "replacing"
  /\ entries' =
       IF ReplaceIfSame /\ entries[i] # plan[p].read THEN entries
       ELSE [entries EXCEPT
         ![i].says = says, ![i].by = by, ![i].there = ReplaceInPlace,
         ![i].chain = IF KeepChain THEN @ ELSE 0]
  /\ plan' = [plan EXCEPT ![p].next = 0, ![p].read = <<>>]
  /\ Goto(p, "sealing")
  /\ UNCHANGED <<log, disk, leases, view, mine, finished, late>>

-----------------------------------------------------------------------------
(* And delete, until there is nothing left to delete *)

Needless == {f \in DOMAIN disk \ Files(Last) : ~Trusted(f)}

TPlan(p) ==
  /\ pc[p] = "sealing" /\ Stale(p) = {}
  /\ See(p)
  /\ IF Needless = {}
     THEN finished' = Max({finished, plan[p].knows}) /\ Goto(p, "done")
          /\ plan' = [plan EXCEPT ![p] = [NoPlan EXCEPT !.tries = plan[p].tries]]
     ELSE plan' = [plan EXCEPT ![p].going = Needless] /\ Goto(p, "listed") /\ UNCHANGED finished
  /\ UNCHANGED <<log, entries, disk, leases, mine, late>>

TAnnounce(p) ==
  LET going == plan[p].going \ Files(Last) IN
  /\ pc[p] = "listed" /\ MayAnnounce(p)
  /\ Append1("start", [deletes |-> {f \in going : ~IsIndex(f)}])
  /\ plan' = [plan EXCEPT ![p].going = going]
  /\ Goto(p, "named")
  /\ UNCHANGED <<disk, leases, view, mine, finished, late>>

TListLeases(p) ==
  /\ pc[p] = "named"
  /\ plan' = [plan EXCEPT ![p].hold = {r \in Leased : leases[r] > 0}]
  /\ Goto(p, "waiting")
  /\ UNCHANGED <<log, entries, disk, leases, view, mine, finished, late>>

\* What readers may need, it waits for; if that takes too long it says what is left to do.
Protected(p, f) ==
  WaitForLeases /\ \E r \in plan[p].hold :
    leases[r] > 0 /\ (IsIndex(f) \/ leases[r] < DroppedBy(f))

TDelete(p) ==
  LET kept == {f \in plan[p].going : Protected(p, f)} IN
  /\ pc[p] = "waiting"
  /\ disk' = Without(plan[p].going \ kept)
  /\ plan' = [plan EXCEPT ![p].going = {}, ![p].hold = {}]
  /\ finished' = IF LookUntilNothing \/ kept # {} THEN finished ELSE Max({finished, plan[p].knows})
  /\ Goto(p, IF kept = {} /\ LookUntilNothing THEN "committed" ELSE "done")
  /\ UNCHANGED <<log, entries, leases, view, mine, late>>

TGiveUp(p) ==  \* somebody has moved what it went by
  /\ pc[p] = "listed" /\ ~MayAnnounce(p)
  /\ Goto(p, "done")
  /\ UNCHANGED <<log, entries, disk, leases, view, mine, plan, finished, late>>

Finishing(p) ==
  \/ SLook(p) \/ SRead(p) \/ SReplace(p)
  \/ TPlan(p) \/ TAnnounce(p) \/ TListLeases(p) \/ TDelete(p) \/ TGiveUp(p)

Eraser(e) ==
  \/ EPlan(e) \/ EWrite(e) \/ EAnnounce(e) \/ ECommit(e) \/ EGiveUp(e) \/ Finishing(e)

-----------------------------------------------------------------------------
(* A vacuum, which combines files and then does the same *)

VPlan(v) ==
  /\ pc[v] = "idle"
  /\ See(v)
  /\ \E files \in {{}, Files(Last)} : plan' = [plan EXCEPT ![v].files = files]
  /\ Goto(v, IF plan'[v].files = {} THEN "committed" ELSE "combining")
  /\ UNCHANGED <<log, entries, disk, leases, mine, finished, late>>

VWrite(v) ==
  /\ pc[v] = "combining" /\ plan[v].files \subseteq DOMAIN disk
  /\ disk' = (New(v) :> UNION {disk[f] : f \in plan[v].files}) @@ disk
  /\ mine' = [mine EXCEPT ![v] = {New(v)}]
  /\ late' = IF Since(view[v], "erase") THEN late \cup {New(v)} ELSE late
  /\ Goto(v, "combined")
  /\ UNCHANGED <<log, entries, leases, view, plan, finished>>

MayMove(v) == ~(CheckUnmoved /\ Moved(view[v])) /\ NotDoomed(v)
VMove(v) ==
  /\ pc[v] = "combined" /\ MayMove(v)
  /\ Append1("move", [where |-> [r \in RowsAt(view[v]) |-> CHOOSE f \in mine[v] : TRUE]
                                @@ log[Last].where])
  /\ mine' = [mine EXCEPT ![v] = {}]
  /\ Goto(v, "committed")
  /\ UNCHANGED <<disk, leases, view, plan, finished, late>>

\* It takes back what it wrote; or it dies, and that is a leftover.
VGiveUp(v) ==
  /\ \/ pc[v] = "combining" /\ ~(plan[v].files \subseteq DOMAIN disk)
     \/ pc[v] = "combined" /\ ~MayMove(v)
  /\ \E files \in {{}, mine[v]} : disk' = Without(files)
  /\ mine' = [mine EXCEPT ![v] = {}]
  /\ Goto(v, "done")
  /\ UNCHANGED <<log, entries, leases, view, plan, finished, late>>

Vacuum(v) == VPlan(v) \/ VWrite(v) \/ VMove(v) \/ VGiveUp(v) \/ Finishing(v)

Next ==
  \/ \E e \in Erasers : Eraser(e)
  \/ \E w \in Writers : Writer(w)
  \/ \E z \in Freezers : Freezer(z)
  \/ \E r \in Leased : Reader(r)
  \/ \E v \in Vacuums : Vacuum(v)
  \/ \E r \in Leased, p \in Workers : Expires(r, p)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

\* Each state that there ever was is what it was, less what was erased by now: no row comes back,
\* none is lost, and no file that is needed is gone.
StatesAreLessErased == \A at \in 1..Last : Reads(Last, at) = RowsAt(at) \ Erased(Last)
VersionsAreProved == \A v \in Versions(Last) : Claim(v) = Reads(Last, log[v].of)
ReadersKeepTheirFiles ==
  \A r \in Leased : pc[r] = "reading" => Files(view[r]) \subseteq DOMAIN disk
LogHasNoGap ==
  \A i \in 1..Last : entries[i].there /\ (i > 1 => entries[i].after = entries[i - 1].chain)
ResealedIsAnnounced ==
  \A i \in 1..Last : Says(i) # Says0(i) =>
    /\ entries[i].by \in i..Last /\ log[entries[i].by].op = "erase-start"
    /\ \A v \in DOMAIN Says(i) : Says(i)[v] \subseteq Says0(i)[v]
    /\ \A v \in DOMAIN Says(i) : Says0(i)[v] \ Says(i)[v] \subseteq Erased(Last)
IndexesAreLessErased == \A f \in DOMAIN disk : Trusted(f) => disk[f] \cap Erased(Last) = {}

\* Once somebody was told that an erasure is finished.
Gone == IF finished = 0 THEN {} ELSE Erased(finished)
NoFileHasErasedRows == \A f \in DOMAIN disk \ late : disk[f] \cap Gone = {}
NoEntryHasOldProofs == \A i \in 1..Last : \A v \in DOMAIN Says(i) : Says(i)[v] \cap Gone = {}

\* An eraser ends, whoever else has died; who has lost its last attempt has ended.
LiveSpec == Spec /\ \A e \in Erasers : WF_vars(Eraser(e))
ErasersEnd == \A e \in Erasers : <>(pc[e] \in {"done", "again"})

(* What must be reached *)
Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..11 : TLCSet(n, FALSE)
At(place) == {p \in Procs : pc[p] = place}
AllIsReached ==
  /\ Reached(1, "somebody's row came while an erasure of it was worked out",
       \E e \in At("announced") : Came(e) # {})
  /\ Reached(2, "a version was frozen while an erasure was worked out",
       \E e \in At("announced") : Versions(Last) # Versions(view[e]))
  /\ Reached(3, "what was read for a freeze was erased", \E z \in At("read") : ~MayFreeze(z))
  /\ Reached(4, "a vacuum finishes an erasure that died",
       \E e \in Erasers : pc[e] = "committed" /\ finished = LastErasure(Last) /\ finished > 0)
  /\ Reached(5, "a vacuum took what an erasure wrote for a leftover",
       \E e \in At("announced") : ~NotDoomed(e))
  /\ Reached(6, "a reader has files that had erased rows",
       \E r \in At("reading") : \E f \in Files(view[r]) : In(f) \cap Erased(Last) # {})
  /\ Reached(7, "an index from before an erasure lies there",
       \E f \in DOMAIN disk : IsIndex(f) /\ ~Trusted(f))
  /\ Reached(8, "a file with erased rows was written too late",
       \E f \in late \cap DOMAIN disk : disk[f] \cap Erased(Last) # {})
  /\ Reached(9, "a row of somebody came again after an erasure of all of them",
       finished > 0 /\ \E r \in RowsAt(Last) \ Erased(Last) : r[1] \in Persons)
EntriesAreReached ==
  /\ Reached(10, "an entry was replaced by another meanwhile",
       \E p \in At("replacing") : entries[plan[p].next] # plan[p].read)
  /\ Reached(11, "an entry was replaced for a later erasure",
       \E p \in At("sealing") : \E i \in 1..plan[p].knows :
         entries[i].by > Announced(plan[p].knows) /\ Anew(p, i) # Says(i))

Symmetry ==
  Permutations(Erasers) \cup Permutations(Persons) \cup Permutations(Vacuums)
    \cup Permutations(Readers) \cup Permutations(Writers)
=============================================================================
