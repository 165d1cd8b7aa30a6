------------------------------- MODULE Publish -------------------------------
(***************************************************************************)
(* How rows of one table of the lake are brought to one place, and taken   *)
(* away again: by publishers, who may be several and may die anywhere, to  *)
(* readers, who know nothing of them.  Three kinds of places:              *)
(*                                                                         *)
(*   "folders"  plain files: a folder for each build, and one pointer that *)
(*              is replaced by a conditional write                         *)
(*   "log"      Iceberg and Delta: a commit names files, wherever they lie *)
(*   "stage"    a table of the lake: the pointer is its head               *)
(*                                                                         *)
(* A row is the number of the transaction that wrote it.  That nothing     *)
(* goes away of a source while it is read is what the module Lake is       *)
(* about: a publisher reads it under a lease, as one step.                 *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Kind,
  Publishers, Readers, Removers,
  None,
  MaxRuns,                             \* of all publishers
  MaxSyncs, MaxDrops, MaxFloors, MaxFreezes, MaxTouches,
  LateRequests,                        \* whether a request may arrive after its run gave it up
  Mutants                              \* the rules that are switched off, one in each behaviour

VARIABLES
  off,      \* the rule that is switched off
  log,      \* of the source: of each transaction the rows that it leaves
  pointer,  \* what readers go by; None where nothing is published
  clock,    \* commits at the place, counted
  claim,    \* whether the place is claimed
  disk,     \* files that are there
  taken,    \* folders of versions that somebody has begun
  pc, me,   \* of each process where it is, and what it knows
  runs,     \* how many have begun
  acked,    \* the newest position that somebody was told is published
  reading,  \* of each reader its files
  put       \* whether somebody else has put a file there

vars == <<off, log, pointer, clock, claim, disk, taken, pc, me, runs, acked, reading, put>>
Folders == Kind = "folders"
Staging == Kind = "stage"
Is(rule) == off # rule

Entry(op, rows, first) ==
  [op |-> op, rows |-> rows, first |-> first, floor |-> 1, frozen |-> {}]
File(dir, by, rows) == [dir |-> dir, by |-> by, rows |-> rows, again |-> FALSE]
Nothing == [base |-> None, seen |-> 0, to |-> 0, version |-> 0, dir |-> <<None, 0>>, born |-> 0,
            kept |-> {}, added |-> {}, going |-> {}, sent |-> 0]  \* the request whose answer was lost
NoPointer ==
  [token |-> 0, dir |-> <<None, 0>>, files |-> {}, at |-> 0, stamp |-> 0, was |-> 0,
   touched |-> FALSE, former |-> {}, versions |-> <<>>]

-----------------------------------------------------------------------------
(* The source *)

Last == Len(log)
Now == log[Last]
Count(op) == Cardinality({n \in 1..Last : log[n].op = op})
Readable(n, at) == n >= log[at].floor \/ n \in log[at].frozen
\* What the log at a transaction makes of an earlier one: where history was dropped, of the rows
\* between two states only those are kept that the later one has.
Reads(n, at) ==
  IF n < log[at].first THEN {}
  ELSE IF Readable(n, at) THEN log[n].rows
  ELSE log[n].rows \cap log[log[at].floor].rows
MovesRows == {"sync", "begin"}
RowsMoved(from, to) == \E i \in (from + 1)..to : log[i].op \in MovesRows

Add(entry) == log' = Append(log, entry)
Theirs == UNCHANGED <<off, pointer, clock, claim, disk, taken, pc, me, runs, acked, reading, put>>
Sync ==  \* a row comes, or goes, or comes for another
  /\ Count("sync") <= MaxSyncs
  /\ \E gone \in {{}} \cup {{row} : row \in Now.rows}, come \in {{}, {Last + 1}} :
       /\ gone \cup come # {}
       /\ Add([Now EXCEPT !.op = "sync", !.rows = (@ \ gone) \cup come])
  /\ Theirs
Begin ==  \* dropped, and begun anew; or another lake, in whose log such a transaction is, too
  /\ Count("begin") < MaxDrops
  /\ Add(Entry("begin", {Last + 1}, Last + 1))
  /\ Theirs
DropHistory ==
  /\ Count("floor") < MaxFloors /\ Now.floor < Last
  /\ Add([Now EXCEPT !.op = "floor", !.floor = Last])
  /\ Theirs
Freeze ==
  /\ Count("freeze") < MaxFreezes
  /\ Add([Now EXCEPT !.op = "freeze", !.frozen = @ \cup {Last}])
  /\ Theirs

-----------------------------------------------------------------------------
(* Publishers *)

There == pointer # None
Token == IF pointer = None THEN 0 ELSE pointer.token
TokenOf(p) == IF me[p].base = None THEN 0 ELSE me[p].base.token
Procs == Publishers \cup Removers
Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
Ends(p) == Goto(p, "idle") /\ me' = [me EXCEPT ![p] = Nothing]
Rows(files) == UNION {f.rows : f \in files}
Foreign == File(<<None, 9>>, None, {})

Init ==
  /\ off \in Mutants
  /\ log = <<Entry("sync", {1}, 1)>>
  /\ pointer = None /\ clock = 0 /\ claim = FALSE /\ disk = {} /\ taken = {}
  /\ pc = [p \in Procs |-> "idle"]
  /\ me = [p \in Procs |-> Nothing]
  /\ runs = 0
  /\ acked = 0
  /\ reading = [r \in Readers |-> {}]
  /\ put = FALSE

PLook(p) ==
  /\ pc[p] = IF Is("BaseFirst") THEN "idle" ELSE "read"
  /\ runs < MaxRuns
  /\ pointer # None \/ claim \/ disk = {}  \* else it holds something else, and is refused
  /\ runs' = runs + 1
  /\ me' = [me EXCEPT ![p].base = pointer,
                      ![p].dir = IF Is("NamesOnce") THEN <<p, runs + 1>> ELSE <<None, 1>>]
  /\ Goto(p, IF Is("BaseFirst") THEN "looked" ELSE "begun")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, acked, reading, put>>

PSource(p) ==
  /\ pc[p] = IF Is("BaseFirst") THEN "looked" ELSE "idle"
  /\ runs < MaxRuns \/ Is("BaseFirst")
  /\ me' = [me EXCEPT ![p].seen = Last]
  /\ Goto(p, IF Is("BaseFirst") THEN "begun" ELSE "read")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>

SameTable(p) == Is("SameTable") => me[p].base.at >= log[me[p].seen].first
Behind(p) ==
  IF me[p].base = None THEN TRUE
  ELSE \/ me[p].base.touched \/ me[p].base.at < log[me[p].seen].first
       \/ me[p].base.at > me[p].seen \/ RowsMoved(me[p].base.at, me[p].seen)
ByIncrement(p) ==
  /\ me[p].base # None
  /\ me[p].base.at <= me[p].seen /\ SameTable(p)
  /\ Is("ReadableFrom") => Readable(me[p].base.at, me[p].seen)
  /\ Is("CompareTouched") => ~me[p].base.touched

\* What readers see is brought to a state: the newest one, or a version's on the way there.
Targets(p) ==
  {me[p].seen} \cup {v \in log[me[p].seen].frozen : me[p].base = None \/ me[p].base.at < v}
Write(p, kept, added, to, version) ==
  /\ me' = [me EXCEPT ![p].to = to, ![p].version = version, ![p].born = clock,
                      ![p].kept = kept, ![p].added = added]
  /\ disk' = IF Is("FilesFirst") THEN disk \cup added ELSE disk
  /\ claim' = TRUE
  /\ Goto(p, "written")
  /\ UNCHANGED <<off, log, pointer, clock, taken, runs, acked, reading, put>>
All(p, to) == {File(me[p].dir, p, Reads(to, me[p].seen))}

PWriteAll(p) ==
  /\ pc[p] = "begun" /\ ~ByIncrement(p) /\ Behind(p)
  /\ \E to \in Targets(p) : Write(p, {}, All(p, to), to, 0)

PWriteChanges(p) ==
  /\ pc[p] = "begun" /\ ByIncrement(p) /\ Behind(p)
  /\ \E to \in Targets(p) :
       LET before == Reads(me[p].base.at, me[p].seen)
           after == Reads(to, me[p].seen)
           kept == {f \in me[p].base.files : f.rows \cap (before \ after) = {}}
           rows == (Rows(me[p].base.files \ kept) \ (before \ after)) \cup (after \ before)
       IN Write(p, kept, IF rows = {} THEN {} ELSE {File(me[p].dir, p, rows)}, to, 0)

\* Another name for what is there, where that is the version; else beside it.
PWriteVersion(p) ==
  /\ pc[p] = "begun" /\ me[p].base # None /\ ~Staging
  /\ \E v \in log[me[p].seen].frozen \ DOMAIN me[p].base.versions :
       IF me[p].base.at = v THEN Write(p, me[p].base.files, {}, v, v)
       ELSE Write(p, {}, All(p, v), v, v)

PUpToDate(p) ==
  /\ pc[p] = "begun" /\ me[p].base # None /\ ~Behind(p)
  /\ Ends(p)
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>

PAgain(p) ==  \* Spark runs a task a second time; its file may come late
  /\ pc[p] = "written" /\ Folders /\ me[p].added # {} /\ Readers = {} /\ me[p].sent = 0
  /\ disk' = disk \cup {[f EXCEPT !.again = TRUE] : f \in me[p].added}
  /\ me' = [me EXCEPT ![p].sent = 1]
  /\ UNCHANGED <<off, log, pointer, clock, claim, taken, pc, runs, acked, reading, put>>

\* The folder becomes complete.  A commit that shows the very files that are there moves nothing.
MovesOnly(p) == me[p].version = 0 /\ me[p].added = {} /\ me[p].base # None
                /\ me[p].kept = me[p].base.files
VersionDir(p) ==
  IF Is("VersionClaim") /\ me[p].version \in taken THEN <<p, me[p].dir[2] + 10>>
  ELSE <<"version", me[p].version>>
Clones(p, dir, files) == {File(dir, p, f.rows) : f \in files}
PComplete(p) ==
  LET dir == IF me[p].version > 0 THEN VersionDir(p) ELSE me[p].dir
      clone == IF me[p].version > 0 THEN me[p].kept \cup me[p].added ELSE me[p].kept
      clones == Clones(p, dir, clone)
      named == clones \cup (IF me[p].version > 0 THEN {} ELSE me[p].added)
      others == {f \in disk : f.dir = dir /\ f \notin named /\ f.again}
  IN
  /\ pc[p] = "written" /\ Token = TokenOf(p)
  /\ IF ~Folders \/ MovesOnly(p) \/ ~Is("CompleteFolders")
     THEN UNCHANGED <<disk, taken, me>>
     ELSE /\ clone \subseteq disk \/ ~Is("FilesFirst")
          /\ disk' = (disk \cup clones) \ (IF Is("ClearFirst") THEN others ELSE {})
          /\ taken' = IF me[p].version > 0 THEN taken \cup {me[p].version} ELSE taken
          /\ me' = [me EXCEPT ![p].kept = {}, ![p].added = named]
  /\ Goto(p, "complete")
  /\ UNCHANGED <<off, log, pointer, clock, claim, runs, acked, reading, put>>

PFails(p) ==  \* a file that it builds on is gone: what it began with is not what is there
  /\ pc[p] = "written" /\ Folders /\ ~MovesOnly(p)
  /\ Token = TokenOf(p)
  /\ ~((IF me[p].version > 0 THEN me[p].kept \cup me[p].added ELSE me[p].kept) \subseteq disk)
  /\ Is("FilesFirst")
  /\ Ends(p)
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>

-----------------------------------------------------------------------------
(* The commit: one conditional write *)

Fits(p) == Token = TokenOf(p) \/ (~Is("Condition") /\ pointer # None)
First(p) == me[p].base = None
Pointer(p) ==
  LET named == me[p].kept \cup me[p].added
      \* A log's commit says what comes and what goes.
      files == IF Kind # "log" \/ ~There \/ First(p) THEN named
               ELSE (pointer.files \ (me[p].base.files \ me[p].kept)) \cup me[p].added
      head == me[p].version = 0 \/ me[p].base = None
      before == IF pointer = None THEN NoPointer ELSE pointer
  IN
  IF ~head /\ Is("VersionsBeside")
  THEN [pointer EXCEPT !.token = clock + 1, !.versions = (me[p].version :> named) @@ @]
  ELSE [NoPointer EXCEPT
         !.token = clock + 1, !.files = files, !.at = me[p].to, !.was = before.at,
         !.dir = IF MovesOnly(p) THEN before.dir ELSE me[p].dir,
         !.stamp = IF MovesOnly(p) THEN before.stamp ELSE clock + 1,
         !.former = (before.former \cup before.files) \ files, !.versions = before.versions]
Applies(p) == pointer' = Pointer(p) /\ clock' = clock + 1
Told(p) == IF me[p].version > 0 THEN acked ELSE IF acked < me[p].to THEN me[p].to ELSE acked

Seen(p) == pointer # None /\ pointer.dir = me[p].dir
PCommit(p) ==
  /\ pc[p] = "complete" /\ Fits(p)
  /\ Applies(p)
  /\ IF First(p) /\ Folders /\ Is("LookBack")
     THEN Goto(p, "first") /\ UNCHANGED acked
     ELSE Goto(p, "published") /\ acked' = Told(p)
  /\ UNCHANGED <<off, log, claim, disk, taken, me, runs, reading, put>>

PCommitReplyLost(p) ==
  /\ pc[p] = "complete" /\ Token = TokenOf(p) /\ ~First(p)
  /\ Applies(p)
  /\ me' = [me EXCEPT ![p].sent = clock + 1]
  /\ Goto(p, "sent")
  /\ UNCHANGED <<off, log, claim, disk, taken, runs, acked, reading, put>>

PReadBack(p) ==
  /\ pc[p] = "sent"
  /\ IF There /\ pointer.token = me[p].sent
     THEN Goto(p, "published") /\ acked' = Told(p)
     ELSE Goto(p, "refused") /\ UNCHANGED acked
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, me, runs, reading, put>>

\* No answer, and nothing is there: it may arrive later.  The run is at its end.
PUnknown(p) ==
  /\ LateRequests /\ pc[p] = "complete"
  /\ Goto(p, "late")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, me, runs, acked, reading, put>>
Arrives(p) ==
  /\ pc[p] = "late" /\ Token = TokenOf(p) /\ ~First(p)
  /\ Applies(p) /\ Ends(p)
  /\ UNCHANGED <<off, log, claim, disk, taken, runs, acked, reading, put>>

\* The first commit has no former state that it could be conditional on: who removed all meanwhile
\* has left no trace.  So its files are looked for once more.
PLookBack(p) ==
  /\ pc[p] = "first"
  /\ IF me[p].kept \cup me[p].added \subseteq disk
     THEN Goto(p, "published") /\ acked' = IF Seen(p) THEN Told(p) ELSE acked
     ELSE Goto(p, "undo") /\ UNCHANGED acked
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, me, runs, reading, put>>
PUndo(p) ==
  /\ pc[p] = "undo"
  /\ pointer' = IF Seen(p) THEN None ELSE pointer
  /\ Goto(p, "refused")
  /\ UNCHANGED <<off, log, clock, claim, disk, taken, me, runs, acked, reading, put>>

PConflict(p) ==
  /\ \/ pc[p] = "written" /\ Token # TokenOf(p)
     \/ pc[p] = "complete" /\ ~Fits(p)
  /\ Goto(p, "refused")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, me, runs, acked, reading, put>>

\* It takes back what it wrote, unless that has been published after all.
Own(p) == {f \in disk : f.dir \in {me[p].dir} \cup {g.dir : g \in me[p].added}}
PWithdraw(p) ==
  LET named == pointer # None /\
        \E f \in me[p].added : f \in pointer.files \cup pointer.former
                                     \cup UNION {pointer.versions[v] : v \in DOMAIN pointer.versions}
  IN
  /\ pc[p] = "refused"
  /\ disk' = IF Is("Withdraw") /\ (named => ~Is("WithdrawChecks")) THEN disk \ Own(p) ELSE disk
  /\ Ends(p)
  /\ UNCHANGED <<off, log, pointer, clock, claim, taken, runs, acked, reading, put>>

-----------------------------------------------------------------------------
(* The sweep that follows *)

OfVersions == UNION {pointer.versions[v] : v \in DOMAIN pointer.versions}
Kept == IF Is("KeepVersions") THEN OfVersions ELSE {}
Needed ==  \* of folders each goes as a whole, and what lies in the newest beside its files
  IF Folders
  THEN {f \in pointer.files : f.dir = pointer.dir} \cup {f \in disk : \E g \in Kept : f.dir = g.dir}
  ELSE pointer.files \cup Kept
AtWork(p) == pc[p] \in {"written", "complete", "sent", "first", "late"}
BornAt(f) ==  \* when the run began that a file is of
  LET of == {p \in Publishers : AtWork(p) /\ \E g \in {f} : g.dir = me[p].dir \/ g \in me[p].added}
  IN IF of = {} THEN 0 ELSE me[CHOOSE p \in of : TRUE].born
\* Of a run that can commit no more: it began before the last commit; or, where that cannot be told
\* of a file, it is silent for a day.
MayBeAlive(f) ==
  /\ Is("SpareTheLiving")
  /\ IF Folders
     THEN \/ BornAt(f) >= pointer.stamp
          \/ f.dir[1] = "version" /\ f.dir[2] \notin DOMAIN pointer.versions
     ELSE \E p \in Publishers : AtWork(p) /\ f \in me[p].added

PSweep(p) ==
  /\ pc[p] = "published" /\ ~Staging /\ pointer # None
  /\ me' = [me EXCEPT ![p] = [Nothing EXCEPT !.going =
       {f \in disk \ Needed : /\ f # Foreign \/ ~Is("OwnNames")
                              /\ f \notin pointer.former => ~MayBeAlive(f)}]]
  /\ Goto(p, "sweeping")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>
PNoSweep(p) ==
  /\ pc[p] = "published" /\ (Staging \/ pointer = None)
  /\ Ends(p)
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>
PDelete(p) ==
  /\ pc[p] = "sweeping"
  /\ disk' = disk \ {f \in me[p].going :
                       Is("KeepCoversReads") => \A r \in Readers : f \notin reading[r]}
  /\ Ends(p)
  /\ UNCHANGED <<off, log, pointer, clock, claim, taken, runs, acked, reading, put>>

Publisher(p) ==
  \/ PLook(p) \/ PSource(p) \/ PWriteAll(p) \/ PWriteChanges(p) \/ PWriteVersion(p) \/ PUpToDate(p)
  \/ PAgain(p) \/ PComplete(p) \/ PFails(p) \/ PCommit(p) \/ PCommitReplyLost(p) \/ PReadBack(p)
  \/ PUnknown(p) \/ Arrives(p) \/ PLookBack(p) \/ PUndo(p) \/ PConflict(p) \/ PWithdraw(p)
  \/ PSweep(p) \/ PNoSweep(p) \/ PDelete(p)

-----------------------------------------------------------------------------
(* Who unpublishes, and deletes *)

Ours == {f \in disk : f # Foreign}
ULook(u) ==
  /\ pc[u] = "idle" /\ (claim \/ pointer # None)
  /\ claim' = (claim \/ Is("ClaimLast"))
  /\ me' = [me EXCEPT ![u].going = {f.dir : f \in Ours}]
  /\ Goto(u, IF Is("ClaimLast") THEN "listed" ELSE "unclaiming")
  /\ UNCHANGED <<off, log, pointer, clock, disk, taken, runs, acked, reading, put>>
UUnclaim(u) ==  \* only without the rule
  /\ pc[u] = "unclaiming"
  /\ claim' = FALSE /\ Goto(u, "listed")
  /\ UNCHANGED <<off, log, pointer, clock, disk, taken, me, runs, acked, reading, put>>
UPointer(u) ==
  /\ pc[u] \in {"listed", "again"}
  /\ me' = [me EXCEPT ![u].born = clock]
  /\ pointer' = IF Is("PointerFirst") THEN None ELSE pointer
  /\ acked' = 0
  /\ Goto(u, "deleting")
  /\ UNCHANGED <<off, log, clock, claim, disk, taken, runs, reading, put>>
UFiles(u) ==
  /\ pc[u] = "deleting"
  /\ disk' = {f \in disk : f.dir \notin me[u].going /\ (f = Foreign => Is("OwnNames"))}
  /\ reading' = [r \in Readers |-> {}]  \* as it was asked for
  /\ taken' = {v \in taken : <<"version", v>> \notin me[u].going}
  /\ Goto(u, "deleted")
  /\ UNCHANGED <<off, log, pointer, clock, claim, me, runs, acked, put>>
UAgain(u) ==  \* somebody was at work
  /\ pc[u] = "deleted" /\ Is("RemoveAgain") /\ (pointer # None \/ Ours # {})
  /\ me' = [me EXCEPT ![u].going = {f.dir : f \in Ours}]
  /\ Goto(u, "again")
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, runs, acked, reading, put>>
UEnd(u) ==
  /\ pc[u] = "deleted" /\ (Is("RemoveAgain") => pointer = None /\ Ours = {})
  /\ pointer' = IF Is("PointerFirst") THEN pointer ELSE None
  /\ claim' = FALSE
  /\ me' = [me EXCEPT ![u] = Nothing]
  /\ Goto(u, "done")
  /\ UNCHANGED <<off, log, clock, disk, taken, runs, acked, reading, put>>
Remover(u) == ULook(u) \/ UUnclaim(u) \/ UPointer(u) \/ UFiles(u) \/ UAgain(u) \/ UEnd(u)

-----------------------------------------------------------------------------
RLook(r) ==
  /\ reading[r] = {} /\ pointer # None /\ pointer.files \subseteq disk
  /\ reading' = [reading EXCEPT ![r] = pointer.files]
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, pc, me, runs, acked, put>>
REnd(r) ==
  /\ reading[r] # {}
  /\ reading' = [reading EXCEPT ![r] = {}]
  /\ UNCHANGED <<off, log, pointer, clock, claim, disk, taken, pc, me, runs, acked, put>>

Touch ==  \* somebody else changes the staging table
  /\ Staging /\ pointer # None /\ ~pointer.touched
  /\ MaxTouches > 0
  /\ pointer' = [pointer EXCEPT !.token = clock + 1, !.touched = TRUE,
                                !.files = {File(<<None, 2>>, None, {99})}]
  /\ clock' = clock + 1
  /\ UNCHANGED <<off, log, claim, disk, taken, pc, me, runs, acked, reading, put>>
PutForeign ==  \* and somebody puts a file of theirs into the place
  /\ ~Staging /\ MaxTouches > 0 /\ ~put /\ claim
  /\ disk' = disk \cup {Foreign} /\ put' = TRUE
  /\ UNCHANGED <<off, log, pointer, clock, claim, taken, pc, me, runs, acked, reading>>

Next ==
  \/ Sync \/ Begin \/ DropHistory \/ Freeze \/ Touch \/ PutForeign
  \/ \E p \in Publishers : Publisher(p)
  \/ \E r \in Readers : RLook(r) \/ REnd(r)
  \/ \E u \in Removers : Remover(u)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

\* A first commit that has not looked back yet, or that fell into a removal that goes on.
Unsure ==
  \/ \E p \in Publishers : pc[p] \in {"first", "undo"} /\ pointer.dir = me[p].dir
  \/ \E u \in Removers : pc[u] \in {"deleting", "deleted", "again"} /\ pointer.stamp > me[u].born
InFolder(dir) == {f \in disk : f.dir = dir}
Apart(files) == \A f, g \in files : f # g => f.rows \cap g.rows = {}

PointerIsWhole == There /\ ~Staging /\ ~Unsure => pointer.files \subseteq disk
FoldersAreExact ==
  There /\ Folders => InFolder(pointer.dir) \subseteq pointer.files \/ pointer.files = {}
RowsAreTheSources ==
  There /\ ~pointer.touched =>
    Rows(pointer.files) = log[pointer.at].rows /\ Apart(pointer.files)
PositionsNeverGoBack == There => pointer.at >= pointer.was
AcknowledgedIsSeen == acked > 0 => There /\ pointer.at >= acked
ReadersKeepTheirFiles == \A r \in Readers : reading[r] \subseteq disk
VersionsReadTheSame ==
  There => \A v \in DOMAIN pointer.versions :
    LET files == pointer.versions[v] IN
    /\ files \subseteq disk /\ Rows(files) = log[v].rows /\ Apart(files)
    /\ Folders => \A f \in files : InFolder(f.dir) = files
NothingOfOthersIsDeleted == put => Foreign \in disk
LeftoversAreKnown ==
  claim \/ There \/ Staging \/
    \A f \in Ours : \E p \in Publishers :
      pc[p] # "idle" /\ (f.dir = me[p].dir \/ f \in me[p].added)

LiveSpec ==
  /\ Spec
  /\ \A p \in Publishers : WF_vars(Publisher(p))
  /\ \A u \in Removers : WF_vars(Remover(u))
\* Whose request arrives late has ended.
PublishersEnd == \A p \in Publishers : []<>(pc[p] \in {"idle", "late"})
RemovalsEnd == \A u \in Removers : pc[u] = "listed" ~> pc[u] = "done"

Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..9 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "a publisher finds that another was sooner",
       \E p \in Publishers : pc[p] = "refused" /\ Own(p) # {} /\ There)
  /\ Reached(2, "a commit whose answer was lost is replaced already",
       \E p \in Publishers : pc[p] = "refused" /\ There /\ me[p].added # {}
         /\ me[p].added \subseteq pointer.former)
  /\ Reached(3, "a file is gone that a publisher builds on",
       \E p \in Publishers : pc[p] = "written" /\ There /\ ~(me[p].kept \subseteq disk))
  /\ Reached(4, "a run at work is swept",
       \E p \in Publishers : pc[p] \in {"written", "complete"} /\ ~(me[p].added \subseteq disk))
  /\ Reached(5, "a reader reads what is not the newest any more",
       There /\ \E r \in Readers : reading[r] # {} /\ reading[r] # pointer.files)
  /\ Reached(6, "the position moves, and the rows stay",
       There /\ \E p \in Publishers : pc[p] = "complete" /\ MovesOnly(p))
  /\ Reached(7, "a version is written beside newer rows",
       There /\ \E v \in DOMAIN pointer.versions :
         v < pointer.at /\ log[v].rows # Rows(pointer.files) /\ Cardinality(pointer.versions[v]) = 1)
  /\ Reached(8, "all rows are written for want of history",
       There /\ \E p \in Publishers : pc[p] = "written" /\ ~First(p)
         /\ me[p].base.at >= Now.first /\ ~Readable(me[p].base.at, me[p].seen))
  /\ Reached(9, "a first commit fell into a removal", \E p \in Publishers : pc[p] = "undo")

Symmetry == Permutations(Publishers) \cup Permutations(Readers) \cup Permutations(Removers)
=============================================================================
