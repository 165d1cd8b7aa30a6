-------------------------------- MODULE Lake --------------------------------
(***************************************************************************)
(* Who may delete which file, and when: one table on a store that refuses  *)
(* a write whose condition does not hold.  Writers publish files and       *)
(* commit, readers read with a lease or without, freezers read and commit, *)
(* vacuums announce, move, and delete.                                     *)
(*                                                                         *)
(* Every step of every process may come late or never, so a crash and a    *)
(* stall of any length are in every behaviour.  An action is one request   *)
(* to the store, or some of which only the last one matters: the log is    *)
(* only appended to, so to read it entry by entry until one is missing is  *)
(* the same as to read it at once at that moment.                          *)
(*                                                                         *)
(* docs/internals/model.md says which function of the code each action     *)
(* stands for.                                                             *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Writers, Readers, Passers, Freezers, Vacuums,  \* Passers read without a lease
  Droppers,      \* who drop the table, and bring it back
  Past, None,    \* who wrote what is there at the beginning; nobody
  MaxBehind,     \* how many transactions a manifest may be behind
  \* The rules; docs/internals/model.md has a mutant for each.
  LeaseBeforeSnapshot, RereadAfterLease, AnnounceBeforeDelete, CheckDoomed,
  ReadBackLostReply, KeepWhileUnknown, RetentionCoversReads, StaleAboveBeat,
  LeasesListedLast, NamesOnce, Renumber, CheckUnmoved,
  VacuumLock, TakeOver,
  SameTable, UndropChecksNamed, KeepRestorable, DropChecksVersions,
  LateRequests   \* whether a request may arrive after its writer gave it up

VARIABLES  \* TLC chooses among states that differ in names by the first of these: what differs most
  pc,      \* where each process is
  mine,    \* files that a process has published and not yet committed
  disk,    \* names of the data files that are there
  acked,   \* files whose rows were acknowledged: the STATE is out
  leases,  \* of each reader the transaction its lease says; 0 is no lease
  lock,    \* who has vacuum.lock, and whether it was ever taken from one that stood still
  plan,    \* what a vacuum is about to do
  view,    \* the transaction up to which each process has read the log
  log      \* the entries

vars == <<log, disk, acked, leases, lock, pc, view, mine, plan>>
Leased == Readers \cup Freezers
Procs == Writers \cup Leased \cup Passers \cup Vacuums \cup Droppers
NoPlan == [left |-> {}, group |-> {}, going |-> {}, hold |-> {}]

-----------------------------------------------------------------------------
(* What the log says, folded up to transaction n. *)

Last == Len(log)
\* Each entry has beside what it says the snapshot that it makes.
Named(n) == IF n = 0 THEN {} ELSE log[n].named
Used(n) == IF n = 0 THEN {} ELSE log[n].used
Dropped(n) == Named(n) \ Used(n)
DroppedBy(f) ==  \* the entry that dropped it; 0 for a file that was never in the log
  IF Last > 0 /\ f \in DOMAIN log[Last].ends THEN log[Last].ends[f] ELSE 0
Doomed(after) == UNION {log[i].deletes : i \in (after + 1)..Last}
Moved(after) == \E i \in (after + 1)..Last : log[i].op = "move"
\* Whether the table was dropped since, be it there again or another.
Other(after) == SameTable /\ \E i \in (after + 1)..Last : log[i].op \in {"drop", "undrop"}
Changed(after) == Moved(after) \/ Other(after)
There == log[Last].gone = 0
LastBlock(n) == Cardinality({i \in 1..n : log[i].op = "sync"})

Entry(op, who) ==
  [op |-> op, who |-> who, adds |-> {}, drops |-> {}, deletes |-> {}, block |-> 0, of |-> 0,
   named |-> {}, used |-> {}, ends |-> <<>>, gone |-> 0, first |-> 1, back |-> {}, version |-> FALSE]
LeavesDropped == {"drop", "undrop", "start", "done"}
\* ends is of each dropped file the last entry that dropped it, gone the entry that the table was dropped by, first the one that it began with, back what an
\* undrop brings back; version is whether it has any.  What comes after a drop begins another table.
Append1(entry) ==
  LET before == IF Last = 0 THEN Entry("none", None) ELSE log[Last]
      begins == before.gone > 0 /\ entry.op \notin LeavesDropped
      back == IF entry.op = "drop" THEN before.used
              ELSE IF entry.op = "undrop" \/ begins THEN {}
              ELSE IF UndropChecksNamed /\ before.back \cap entry.deletes # {} THEN {}
              ELSE before.back
      drops == IF entry.op = "drop" THEN before.used ELSE entry.drops
  IN log' = Append(log, [entry EXCEPT
       !.named = before.named \cup entry.adds,
       !.used = IF entry.op = "drop" THEN {}
                ELSE IF entry.op = "undrop" THEN before.back
                ELSE (before.used \ entry.drops) \cup entry.adds,
       !.drops = drops,
       !.ends = [f \in drops |-> Last + 1] @@ before.ends,
       !.gone = IF entry.op = "drop" THEN Last + 1
                ELSE IF entry.op = "undrop" \/ begins THEN 0
                ELSE before.gone,
       !.first = IF begins THEN Last + 1 ELSE before.first,
       !.back = back,
       !.version = entry.op = "freeze" \/ (before.version /\ ~begins)])

-----------------------------------------------------------------------------
Init ==
  /\ log = <<[Entry("sync", Past) EXCEPT
       !.adds = {<<Past, 1>>}, !.block = 1, !.named = {<<Past, 1>>}, !.used = {<<Past, 1>>}]>>
  /\ disk = {<<Past, 1>>}
  /\ acked = {<<Past, 1>>}
  /\ leases = [r \in Leased |-> 0]
  /\ lock = [by |-> None, over |-> FALSE]
  /\ pc = [p \in Procs |-> "idle"]
  /\ view = [p \in Procs |-> 0]
  /\ mine = [p \in Writers \cup Vacuums |-> {}]
  /\ plan = [v \in Vacuums |-> NoPlan]

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
See(p) == view' = [view EXCEPT ![p] = Last]

\* A name that nobody had; without the rule, the first that is free.
NewName(p) ==
  IF NamesOnce THEN <<p, 1>>
  ELSE <<Past, CHOOSE n \in 1..9 : <<Past, n>> \notin disk
                                   /\ \A m \in 1..(n - 1) : <<Past, m>> \in disk>>

-----------------------------------------------------------------------------
(* Writers *)

WPublish(w) ==
  /\ pc[w] = "idle"
  /\ See(w)
  /\ disk' = disk \cup {NewName(w)}
  /\ mine' = [mine EXCEPT ![w] = {NewName(w)}]
  /\ Goto(w, "published")
  /\ UNCHANGED <<log, acked, leases, lock, plan>>

NotDoomed(p) == ~CheckDoomed \/ mine[p] \cap Doomed(view[p]) = {}
WAppend(w) ==
  Append1([Entry("sync", w) EXCEPT
    !.adds = mine[w],
    !.block = (IF Renumber THEN LastBlock(Last) ELSE LastBlock(view[w])) + 1])
WEnd(w) == mine' = [mine EXCEPT ![w] = {}] /\ view' = [view EXCEPT ![w] = 0]

\* The check of what is doomed and the number taken are one step: if another takes the number
\* in between, the store refuses, and the writer reads what the other committed.
WCommit(w) ==
  /\ pc[w] = "published" /\ NotDoomed(w)
  /\ WAppend(w) /\ WEnd(w)
  /\ acked' = acked \cup mine[w]
  /\ Goto(w, "done")
  /\ UNCHANGED <<disk, leases, lock, plan>>

\* The entry is there, and who reads it back finds it, however late.
WCommitReplyLost(w) ==
  /\ pc[w] = "published" /\ NotDoomed(w)
  /\ WAppend(w)
  /\ IF ReadBackLostReply
     THEN acked' = acked \cup mine[w] /\ Goto(w, "done") /\ WEnd(w)
     ELSE Goto(w, "withdraw") /\ UNCHANGED <<acked, mine, view>>
  /\ UNCHANGED <<disk, leases, lock, plan>>

\* No answer, and nothing is found where it was to be: the request may arrive later.
WCommitUnknown(w) ==
  /\ LateRequests
  /\ pc[w] = "published" /\ NotDoomed(w)
  /\ See(w)
  /\ Goto(w, "sent")
  /\ disk' = IF KeepWhileUnknown THEN disk ELSE disk \ mine[w]
  /\ UNCHANGED <<log, acked, leases, lock, mine, plan>>

Arrives(w) ==
  /\ pc[w] = "sent" /\ Last = view[w]
  /\ WAppend(w) /\ WEnd(w)
  /\ Goto(w, "done")
  /\ UNCHANGED <<disk, acked, leases, lock, plan>>

Bounces(w) ==  \* the number is another's by now
  /\ pc[w] = "sent" /\ Last > view[w]
  /\ WEnd(w) /\ Goto(w, "done")
  /\ UNCHANGED <<log, disk, acked, leases, lock, plan>>

WWithdraw(w) ==
  /\ pc[w] = "withdraw" \/ (pc[w] = "published" /\ ~NotDoomed(w))
  /\ disk' = disk \ mine[w]
  /\ WEnd(w) /\ Goto(w, "done")
  /\ UNCHANGED <<log, acked, leases, lock, plan>>

Writer(w) ==
  \/ WPublish(w) \/ WCommit(w) \/ WCommitReplyLost(w) \/ WCommitUnknown(w)
  \/ Arrives(w) \/ Bounces(w) \/ WWithdraw(w)

-----------------------------------------------------------------------------
(* Readers, and freezers, who read like them and then commit *)

REnd(r) ==
  /\ leases' = [leases EXCEPT ![r] = 0] /\ view' = [view EXCEPT ![r] = 0]
  /\ Goto(r, "done")

RSnapshotFirst(r) ==  \* only without the rule
  /\ pc[r] = "idle" /\ ~LeaseBeforeSnapshot
  /\ See(r) /\ Goto(r, "early")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine, plan>>

\* By a manifest, which may be behind: written late, lost and written again, or cut, in which
\* case the log is read.
RLease(r) ==
  /\ pc[r] = IF LeaseBeforeSnapshot THEN "idle" ELSE "early"
  /\ \E m \in IF LeaseBeforeSnapshot THEN 1..Last ELSE {view[r]} :
       /\ LeaseBeforeSnapshot => m + MaxBehind >= Last
       /\ log[m].gone = 0
       /\ leases' = [leases EXCEPT ![r] = m]
       /\ view' = [view EXCEPT ![r] = m]
  /\ Goto(r, IF LeaseBeforeSnapshot /\ RereadAfterLease THEN "leased" ELSE "reading")
  /\ UNCHANGED <<log, disk, acked, lock, mine, plan>>

RReread(r) ==
  /\ pc[r] = "leased" /\ There
  /\ See(r) /\ Goto(r, "reading")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine, plan>>

RRelease(r) ==
  /\ pc[r] = "reading" /\ r \in Readers
  /\ REnd(r)
  /\ UNCHANGED <<log, disk, acked, lock, mine, plan>>

FCommit(z) ==
  /\ pc[z] = "reading" /\ z \in Freezers /\ ~Other(view[z])
  /\ Append1([Entry("freeze", z) EXCEPT !.of = view[z]])
  /\ REnd(z)
  /\ UNCHANGED <<disk, acked, lock, mine, plan>>

\* A vacuum saw the lease stand still for the stale time.  A reader that lives refreshes it four
\* times within, so this one is asleep: what it reads from now on is its rows or an error.
Expires(r, v) ==
  /\ pc[v] = "waiting" /\ r \in plan[v].hold /\ leases[r] > 0
  /\ IF StaleAboveBeat
     THEN REnd(r)
     ELSE leases' = [leases EXCEPT ![r] = 0] /\ UNCHANGED <<pc, view>>
  /\ UNCHANGED <<log, disk, acked, lock, mine, plan>>

\* Its table is dropped: what it would read is none, and what it would freeze is no state of it.
RGiveUp(r) ==
  /\ \/ pc[r] = "leased" /\ ~There
     \/ pc[r] = "reading" /\ r \in Freezers /\ Other(view[r])
  /\ REnd(r)
  /\ UNCHANGED <<log, disk, acked, lock, mine, plan>>

PRead(r) ==
  /\ pc[r] = "idle" /\ There
  /\ See(r) /\ Goto(r, "reading")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine, plan>>

PEnd(r) ==
  /\ pc[r] = "reading"
  /\ view' = [view EXCEPT ![r] = 0] /\ Goto(r, "done")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine, plan>>

Reader(r) == RSnapshotFirst(r) \/ RLease(r) \/ RReread(r) \/ RRelease(r) \/ FCommit(r)
             \/ RGiveUp(r)
Passer(r) == PRead(r) \/ PEnd(r)

-----------------------------------------------------------------------------
(* Vacuums *)

\* Dropped for longer than the retention, and a reader without a lease reads for less than it.
Aged(f) ==
  RetentionCoversReads =>
    \A r \in Passers : pc[r] = "reading" => view[r] >= DroppedBy(f)
OldDrops(n) == {f \in Dropped(n) \cap disk : Aged(f)}

VLock(v) ==
  /\ pc[v] = "idle" /\ VacuumLock /\ lock.by = None
  /\ lock' = [lock EXCEPT !.by = v] /\ Goto(v, "locked")
  /\ UNCHANGED <<log, disk, acked, leases, view, mine, plan>>

VTakeOver(v) ==  \* of one that stood still
  /\ pc[v] = "idle" /\ VacuumLock /\ TakeOver /\ lock.by # None
  /\ lock' = [by |-> v, over |-> TRUE] /\ Goto(v, "locked")
  /\ UNCHANGED <<log, disk, acked, leases, view, mine, plan>>

VSnapshot(v) ==
  /\ pc[v] = (IF VacuumLock THEN "locked" ELSE "idle")
  /\ See(v)
  /\ \E group \in {{}, Used(Last)} : plan' = [plan EXCEPT ![v].group = group]
  /\ Goto(v, "planned")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine>>

VList(v) ==
  /\ pc[v] = "planned"
  /\ plan' = [plan EXCEPT
       ![v].left = disk \ Named(view[v]),
       ![v].going = OldDrops(view[v]),
       ![v].hold = IF LeasesListedLast THEN {} ELSE {r \in Leased : leases[r] > 0}]
  /\ Goto(v, "listed")
  /\ UNCHANGED <<log, disk, acked, leases, lock, view, mine>>

VAnnounce(v) ==
  LET going == (plan[v].going \cup plan[v].left) \ Used(Last) IN
  /\ pc[v] = "listed"
  /\ ~(CheckUnmoved /\ Changed(view[v]))
  /\ IF AnnounceBeforeDelete
     THEN /\ Append1([Entry("start", v) EXCEPT !.deletes = going])
          /\ view' = [view EXCEPT ![v] = Last + 1]
     ELSE UNCHANGED <<log, view>>
  /\ plan' = [plan EXCEPT ![v].left = {}, ![v].going = going]
  /\ Goto(v, IF plan[v].group = {} THEN "moved" ELSE "announced")
  /\ UNCHANGED <<disk, acked, leases, lock, mine>>

VWrite(v) ==
  /\ pc[v] = "announced" /\ plan[v].group \subseteq disk
  /\ disk' = disk \cup {NewName(v)}
  /\ mine' = [mine EXCEPT ![v] = {NewName(v)}]
  /\ Goto(v, "written")
  /\ UNCHANGED <<log, acked, leases, lock, view, plan>>

MayMove(v) ==
  NotDoomed(v) /\ ~Changed(view[v]) /\ (VacuumLock => lock.by = v)

VMove(v) ==
  /\ pc[v] = "written" /\ MayMove(v)
  /\ Append1([Entry("move", v) EXCEPT
       !.adds = mine[v], !.drops = plan[v].group, !.of = view[v]])
  /\ view' = [view EXCEPT ![v] = Last + 1]
  /\ Goto(v, "moved")
  /\ UNCHANGED <<disk, acked, leases, lock, mine, plan>>

\* What the vacuum dropped itself goes too, once it is old enough, but nothing that an undrop can
\* bring back and that was not announced; then the leases are listed.
VListLeases(v) ==
  LET kept == IF KeepRestorable THEN log[view[v]].back ELSE {}
      going == (plan[v].going \cup (OldDrops(view[v]) \ kept)) \ Used(view[v]) IN
  /\ pc[v] = "moved" /\ (VacuumLock => lock.by = v)
  /\ plan' = [plan EXCEPT
       ![v].going = going,
       ![v].hold = IF LeasesListedLast THEN {r \in Leased : leases[r] > 0} ELSE @,
       ![v].group = {}]
  /\ Goto(v, "waiting")
  /\ UNCHANGED <<log, disk, acked, leases, lock, view, mine>>

Protected(v, f) ==
  \E r \in plan[v].hold : leases[r] > 0 /\ leases[r] < DroppedBy(f)

VDelete(v) ==
  /\ pc[v] = "waiting"
  /\ disk' = disk \ {f \in plan[v].going : ~Protected(v, f)}
  /\ plan' = [plan EXCEPT ![v] = NoPlan]
  /\ Goto(v, "deleted")
  /\ UNCHANGED <<log, acked, leases, lock, view, mine>>

VEnd(v) ==
  /\ lock' = IF lock.by = v THEN [lock EXCEPT !.by = None] ELSE lock
  /\ view' = [view EXCEPT ![v] = 0] /\ mine' = [mine EXCEPT ![v] = {}]
  /\ plan' = [plan EXCEPT ![v] = NoPlan]
  /\ Goto(v, "done")

VDone(v) ==
  /\ pc[v] = "deleted"
  /\ Append1(Entry("done", v))
  /\ VEnd(v)
  /\ UNCHANGED <<disk, acked, leases>>

\* Something is in its way: it takes back what it wrote, and leaves the rest to the next.
VGiveUp(v) ==
  /\ \/ pc[v] = "listed" /\ CheckUnmoved /\ Changed(view[v])
     \/ pc[v] = "announced" /\ ~(plan[v].group \subseteq disk)
     \/ pc[v] = "written" /\ ~MayMove(v)
     \/ pc[v] = "moved" /\ VacuumLock /\ lock.by # v
  /\ disk' = IF pc[v] = "written" THEN disk \ mine[v] ELSE disk
  /\ VEnd(v)
  /\ UNCHANGED <<log, acked, leases>>

Vacuum(v) ==
  \/ VLock(v) \/ VTakeOver(v) \/ VSnapshot(v) \/ VList(v) \/ VAnnounce(v) \/ VWrite(v)
  \/ VMove(v) \/ VListLeases(v) \/ VDelete(v) \/ VDone(v) \/ VGiveUp(v)

-----------------------------------------------------------------------------
(* Who drops the table, and perhaps brings it back; its versions are not to go with it *)

DLook(d) ==
  /\ pc[d] = "idle" /\ There /\ ~log[Last].version
  /\ See(d) /\ Goto(d, "asked")
  /\ UNCHANGED <<log, disk, acked, leases, lock, mine, plan>>

MayDrop(d) == There /\ ~Other(view[d]) /\ (DropChecksVersions => ~log[Last].version)
DDrop(d) ==
  /\ pc[d] = "asked" /\ MayDrop(d)
  /\ Append1([Entry("drop", d) EXCEPT !.of = view[d]])
  /\ Goto(d, "dropped")
  /\ UNCHANGED <<disk, acked, leases, lock, view, mine, plan>>

\* From the first announcement that names one of its files on, what is there to come back is nothing.
MayUndrop == ~There /\ log[Last].back # {}
DUndrop(d) ==
  /\ pc[d] = "dropped" /\ MayUndrop
  /\ Append1(Entry("undrop", d))
  /\ Goto(d, "done")
  /\ UNCHANGED <<disk, acked, leases, lock, view, mine, plan>>

DGiveUp(d) ==
  /\ (pc[d] = "asked" /\ ~MayDrop(d)) \/ (pc[d] = "dropped" /\ ~MayUndrop)
  /\ Goto(d, "done")
  /\ UNCHANGED <<log, disk, acked, leases, lock, view, mine, plan>>

Dropper(d) == DLook(d) \/ DDrop(d) \/ DUndrop(d) \/ DGiveUp(d)

Next ==
  \/ \E d \in Droppers : Dropper(d)
  \/ \E w \in Writers : Writer(w)
  \/ \E r \in Leased : Reader(r)
  \/ \E r \in Passers : Passer(r)
  \/ \E v \in Vacuums : Vacuum(v)
  \/ \E r \in Leased, v \in Vacuums : Expires(r, v)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

AcknowledgedInLog == \A f \in acked : f \in Named(Last)
\* Each entry is the last once, so these two look at that alone.
OneCommitEach == Last > 1 => log[Last].adds \cap Named(Last - 1) = {}
BlocksNumberedOnce == log[Last].op = "sync" => log[Last].block = LastBlock(Last)
\* All that versions and the retained history need lies in files that the head names.
NeededFilesExist == Used(Last) \subseteq disk
LiveReadersKeepTheirFiles ==
  \A r \in Leased \cup Passers : pc[r] = "reading" => Used(view[r]) \subseteq disk
NothingDoomedIsNamed == Used(Last) \cap Doomed(0) = {}
\* So it is with all that an undrop brings back.
RestorableFilesExist == log[Last].back \subseteq disk
\* Who read one table commits nothing to another.
EntriesAreOfTheirTable == log[Last].of > 0 => log[Last].first <= log[Last].of
DropTakesNoVersion == log[Last].op = "drop" => ~log[Last - 1].version
\* Two vacuums work at once only where one was taken for dead.  Nothing above rests on this.
AtWork == {"locked", "planned", "listed", "announced", "written", "moved", "waiting", "deleted"}
VacuumsApart ==
  \A u, v \in Vacuums : u # v /\ pc[u] \in AtWork /\ pc[v] \in AtWork => lock.over
SnapshotsNeverChange == [][Len(log') >= Len(log) /\ SubSeq(log', 1, Len(log)) = log]_log


\* Readers, freezers and one of several vacuums may stop for ever wherever they are.
Lasting ==
  IF Cardinality(Vacuums) = 1 THEN Vacuums ELSE Vacuums \ {CHOOSE v \in Vacuums : TRUE}
LiveSpec ==
  /\ Spec
  /\ \A w \in Writers : WF_vars(Writer(w))
  /\ \A v \in Lasting : WF_vars(Vacuum(v))
WritersEnd == \A w \in Writers : <>(pc[w] = "done")
VacuumsEnd == \A v \in Lasting : <>(pc[v] = "done")

(* What must be reached: a model in which it never comes to that says nothing.  Each is printed
   once; the run that checks it fails where one is missing. *)
Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..11 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "a writer wakes and finds its file doomed", 
       \E w \in Writers : pc[w] = "published" /\ ~NotDoomed(w))
  /\ Reached(2, "a lease keeps a file from a vacuum",
       \E v \in Vacuums : pc[v] = "waiting" /\ \E f \in plan[v].going : Protected(v, f))
  /\ Reached(3, "a dropped file is gone", ~(Dropped(Last) \subseteq disk))
  /\ Reached(4, "a leftover is gone",
       \E f \in Doomed(0) : f \notin Named(Last) /\ f \notin disk)
  /\ Reached(5, "a reader reads what is not the head any more",
       \E r \in Leased : pc[r] = "reading" /\ Used(view[r]) # Used(Last))
  /\ Reached(6, "a file was listed as a leftover and then committed",
       \E v \in Vacuums : plan[v].left \cap Used(Last) # {})
  /\ Reached(7, "what a vacuum wrote is another's leftover",
       \E v \in Vacuums : pc[v] = "written" /\ mine[v] \cap Doomed(view[v]) # {})
  /\ Reached(8, "a vacuum finds that another has moved what it was about to move",
       \E v \in Vacuums : pc[v] = "written" /\ Moved(view[v]))
DropsAreReached ==
  /\ Reached(9, "a table came back after a vacuum had looked at it",
       There /\ \E v \in Vacuums : pc[v] = "listed" /\ log[view[v]].gone > 0)
  /\ Reached(10, "another table has begun while somebody reads the one before",
       \E r \in Leased : pc[r] = "reading" /\ log[Last].first > view[r])
  /\ Reached(11, "a dropped table cannot come back",
       ~There /\ log[Last].back = {})

Symmetry == Permutations(Writers) \cup Permutations(Vacuums)

(* What of a state matters for what can come, while all rules are in force: not the order in which
   the log came about, but what it says by now, and what those who have read some of it do not know
   yet.  Two states that are alike in this go on alike, so TLC need look at one of them (VIEW).
   tests/model holds it to that, state by state, and counts that nothing is lost by it.

   Readers have no names in it: it says how many are alike.  Where nobody goes by how long the log
   is, and nobody drops the table, a freezer is a reader: its entry names no file; and a vacuum that
   has deleted is done.  Writers and vacuums have names, for files go by them; so all that it comes
   to under other names is said at once.  TLC's own SYMMETRY would not do: of two states that are
   alike but for names it may choose names by what they are not alike in. *)
LengthMatters == MaxBehind > 0 \/ LateRequests \/ Droppers # {}
Since(n) == {f \in disk : DroppedBy(f) > n}
WaitsFor(r) ==  \* who keeps which file for this reader
  {<<v, f>> \in Vacuums \X disk :
     pc[v] = "waiting" /\ f \in plan[v].going /\ r \in plan[v].hold /\ leases[r] < DroppedBy(f)}
\* Who may take it for dead, where that is another end than its own.
Watches(r) ==
  IF pc[r] = "leased" \/ (r \in Freezers /\ LengthMatters)
  THEN {v \in Vacuums : pc[v] = "waiting" /\ r \in plan[v].hold}
  ELSE {}
OfReader(r) ==
  <<<<pc[r], LengthMatters /\ r \in Freezers, pc[r] = "reading" /\ r \in Freezers /\ Other(view[r])>>,
    IF leases[r] = 0 THEN {} ELSE Since(leases[r]),
    IF pc[r] = "reading" THEN Used(view[r]) ELSE {},
    IF leases[r] = 0 THEN {} ELSE WaitsFor(r),
    IF leases[r] = 0 THEN {} ELSE Watches(r)>>
OfPasser(r) ==
  <<<<pc[r]>>,
    IF pc[r] = "reading" THEN Since(view[r]) ELSE {},
    IF pc[r] = "reading" THEN Used(view[r]) ELSE {}, {}, {}>>
\* A process, what is said of it, and files.
OfWriter(w) ==
  <<w, <<IF pc[w] = "published" /\ ~NotDoomed(w) THEN "withdraw" ELSE pc[w],
         pc[w] = "sent" /\ view[w] = Last>>, <<mine[w]>> >>
OfVacuum(v) ==
  CASE pc[v] = "planned" ->
         <<v, <<pc[v], Changed(view[v])>>,
           <<Named(view[v]) \cap disk, Dropped(view[v]) \cap disk, plan[v].group>> >>
    [] pc[v] = "listed" ->
         <<v, <<pc[v], Changed(view[v])>>,
           <<plan[v].left \cap disk, plan[v].going \cap disk, plan[v].group>> >>
    [] pc[v] = "announced" ->
         <<v, <<pc[v], Changed(view[v])>>, <<plan[v].going \cap disk, plan[v].group>> >>
    [] pc[v] = "written" ->
         <<v, <<pc[v], Changed(view[v]), MayMove(v)>>,
           IF MayMove(v)
           THEN <<mine[v], plan[v].going \cap disk, plan[v].group>>
           ELSE <<mine[v], mine[v] \cap Doomed(view[v])>> >>
    [] pc[v] = "moved" ->
         <<v, <<pc[v]>>, <<(plan[v].going \cap disk) \ Used(view[v]), Dropped(view[v]) \cap disk,
                         log[view[v]].back \cap disk>> >>
    [] pc[v] = "waiting" -> <<v, <<pc[v]>>, <<plan[v].going \cap disk>> >>
    [] pc[v] = "deleted" -> <<v, <<IF LengthMatters THEN pc[v] ELSE "done">>, <<>> >>
    [] OTHER -> <<v, <<pc[v]>>, <<>> >>
Bag(of) == {<<x, Cardinality({y \in DOMAIN of : of[y] = x})>> : x \in {of[y] : y \in DOMAIN of}}

\* Only names under which processes that are further on come later: no others are needed to say all
\* that a state may be called, and mostly these are one.
Rank == [idle |-> 0, locked |-> 1, published |-> 2, planned |-> 3, listed |-> 4, announced |-> 5,
         written |-> 6, moved |-> 7, waiting |-> 8, sent |-> 9, withdraw |-> 10, deleted |-> 11,
         done |-> 12]
Numbered(S) ==
  CHOOSE f \in [S -> 1..Cardinality(S)] : \A x, y \in S : x # y => f[x] # f[y]
WriterNumbers == Numbered(Writers)
VacuumNumbers == Numbered(Vacuums)
InOrder(all, numbers, said) ==
  {p \in Permutations(all) : \A x, y \in all :
     numbers[p[x]] < numbers[p[y]] => Rank[said[x]] <= Rank[said[y]]}
Files(p, files) == {<<p[f[1]], f[2]>> : f \in files}
AllFiles(p, each) == [i \in DOMAIN each |-> Files(p, each[i])]
Process(p, x) == <<p[x[1]], x[2], AllFiles(p, x[3])>>
Reading(p, x) ==
  <<x[1], Files(p, x[2]), Files(p, x[3]), {<<p[y[1]], <<p[y[2][1]], y[2][2]>> >> : y \in x[4]},
    {p[v] : v \in x[5]}>>
Essence ==
  LET said == <<lock.over, log[Last].gone > 0, Droppers # {} /\ log[Last].version,
                EntriesAreOfTheirTable, DropTakesNoVersion,
                [d \in Droppers |-> <<pc[d], pc[d] = "asked" /\ Other(view[d])>>]>>
      files == <<disk, acked \ Named(Last), Named(Last) \cap disk, Used(Last),
                 Doomed(0) \cap Used(Last), log[Last].back>> \o [n \in 1..MaxBehind |-> Since(Last - n)]
      writers == [w \in Writers |-> OfWriter(w)]
      vacuums == [v \in Vacuums |-> OfVacuum(v)]
      named == {writers[w] : w \in Writers} \cup {vacuums[v] : v \in Vacuums}
      renamings ==
        {w @@ v @@ (Past :> Past) @@ (None :> None) :
           w \in InOrder(Writers, WriterNumbers, [w \in Writers |-> writers[w][2][1]]),
           v \in InOrder(Vacuums, VacuumNumbers, [v \in Vacuums |-> vacuums[v][2][1]])}
      readers == Bag([r \in Leased |-> OfReader(r)])
      passers == Bag([r \in Passers |-> OfPasser(r)])
  IN <<said,
       {<<p[lock.by], AllFiles(p, files), {Process(p, x) : x \in named},
          {<<Reading(p, x[1]), x[2]>> : x \in readers},
          {<<Reading(p, x[1]), x[2]>> : x \in passers}>> : p \in renamings}>>
=============================================================================
