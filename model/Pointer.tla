------------------------------ MODULE Pointer -------------------------------
(***************************************************************************)
(* Pointers: a name that moves from version to version, in the table's     *)
(* log.  It moves while versions are frozen and deleted, and is read from  *)
(* a manifest, which may be behind, and the entries after it.              *)
(*                                                                         *)
(* One name is enough: what is checked of a name is checked of it alone.   *)
(* Which version a name means is worked out from the notes that versions   *)
(* keep of its moves, those of deleted versions too.                       *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Movers, Deleters, Freezers, Readers,
  MaxRuns,
  DraftAgain, Unmoved, VersionThere, NotPointed, SinceItBegan, SignFirst,
  DeletedKeepNotes, ManifestLast

VARIABLES
  log,
  manifest,  \* the entries that it tells of
  over,      \* whether a move went over another that its process did not know
  unsigned,  \* whether who signs moved the name to a version without a signature
  pc, me, runs

vars == <<log, manifest, over, unsigned, pc, me, runs>>

\* version: what is frozen, named, deleted or signed; 0 where the name is removed.
Entry(op, version, moves) == [op |-> op, version |-> version, moves |-> moves]
\* began: the head when a process began; planned: when it read what it commits by.
Nothing == [began |-> 0, planned |-> 0, version |-> 0, signs |-> FALSE, tells |-> 0]

Prefix(n) == SubSeq(log, 1, n)
Last(set) == CHOOSE i \in set : \A j \in set : j <= i
Count(seq, op) == Cardinality({i \in DOMAIN seq : seq[i].op = op})
Gone(seq) == {seq[i].version : i \in {k \in DOMAIN seq : seq[k].op = "delete"}}
There(seq) == (1..Count(seq, "freeze")) \ Gone(seq)
Signed(seq, v) == \E i \in DOMAIN seq : seq[i].op = "sign" /\ seq[i].version = v

\* By the log alone: the entry that moved the name last.
MovesIn(seq) == {i \in DOMAIN seq : seq[i].moves}
ByLog(seq) == IF MovesIn(seq) = {} THEN 0 ELSE seq[Last(MovesIn(seq))].version

\* By the notes.  A removal is noted with the version that the name left.
NotedWith(seq, i) ==
  IF seq[i].version # 0 THEN seq[i].version
  ELSE seq[Last({j \in MovesIn(seq) : j < i /\ seq[j].version # 0})].version
Notes(seq) == {i \in MovesIn(seq) : DeletedKeepNotes \/ NotedWith(seq, i) \notin Gone(seq)}
\* The number of the last move; 0 where there is no such pointer.
Note(seq) ==
  IF Notes(seq) = {} THEN 0
  ELSE LET last == Last(Notes(seq)) IN
       IF seq[last].version \in {0} \cup Gone(seq) THEN 0 ELSE last
Named(seq) == IF Note(seq) = 0 THEN 0 ELSE seq[Note(seq)].version

Writers == Movers \cup Deleters \cup Freezers

Init ==
  /\ log = <<Entry("freeze", 1, FALSE), Entry("freeze", 2, FALSE)>> /\ manifest = log
  /\ over = FALSE /\ unsigned = FALSE /\ runs = 0
  /\ pc = [p \in Writers \cup Readers |-> "idle"]
  /\ me = [p \in Writers \cup Readers |-> Nothing]

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]
Begin(p, version, signs, place) ==
  /\ pc[p] = "idle" /\ runs < MaxRuns /\ runs' = runs + 1
  /\ me' = [me EXCEPT ![p] = [Nothing EXCEPT
       !.began = Len(log), !.planned = Len(log), !.version = version, !.signs = signs]]
  /\ Goto(p, place)
  /\ UNCHANGED <<log, manifest, over, unsigned>>
End(p) == Goto(p, "idle") /\ me' = [me EXCEPT ![p] = Nothing]

-----------------------------------------------------------------------------
(* What a process begins with *)

MRead(p) ==  \* moves the name to a version, or removes it
  \E v \in (There(log) \cup {0}) \ {Named(log)} : Begin(p, v, FALSE, "point")

DRead(p) == \E v \in There(log) \ {Named(log)} : Begin(p, v, FALSE, "delete")

FMake(p) ==  \* a new version, with the move in its entry unless it is to be signed
  \E signs \in BOOLEAN : Begin(p, 0, signs, IF signs THEN "freeze" ELSE "freeze as")

FFind(p) ==  \* a version that is there; what is checked of its rows takes time
  \E v \in There(log) :
    \/ Begin(p, v, FALSE, "move")
    \/ Begin(p, v, TRUE, IF SignFirst THEN "sign" ELSE "move")

\* The table is read again, because the name's move is a commit of its own.
FMove(p) ==
  LET stays == Named(log) = me[p].version
      moved == SinceItBegan /\ Note(log) # Note(Prefix(me[p].began))
  IN
  /\ pc[p] = "move"
  /\ IF stays \/ moved \/ me[p].version \notin There(log) THEN End(p)
     ELSE me' = [me EXCEPT ![p].planned = Len(log)] /\ Goto(p, "point")
  /\ UNCHANGED <<log, manifest, over, unsigned, runs>>

-----------------------------------------------------------------------------
(* Commits.  Whoever finds its number taken reads what is there, and drafts *)
(* its entry again on top of that: so it is drafted on the log that it      *)
(* follows.                                                                 *)

AtCommit(p) == pc[p] \in {"point", "delete", "sign", "freeze", "freeze as"}
Moves(p) == pc[p] \in {"point", "freeze as"}

Drafted(p) ==
  IF pc[p] \in {"freeze", "freeze as"} THEN Entry("freeze", Count(log, "freeze") + 1, Moves(p))
  ELSE Entry(pc[p], me[p].version, Moves(p))

Refused(p) ==
  LET seq == IF DraftAgain THEN log ELSE Prefix(me[p].planned)
      v == me[p].version
  IN \/ Moves(p) /\ Unmoved /\ Note(seq) # Note(Prefix(me[p].planned))
     \/ pc[p] = "point" /\ VersionThere /\ v # 0 /\ v \notin There(seq)
     \/ pc[p] \in {"delete", "sign"} /\ v \notin There(seq)
     \/ pc[p] = "delete" /\ NotPointed /\ Named(seq) = v

CRefuse(p) ==
  /\ AtCommit(p) /\ Refused(p)
  /\ End(p)
  /\ UNCHANGED <<log, manifest, over, unsigned, runs>>

CCommit(p) ==
  LET entry == Drafted(p)
      next == CASE pc[p] = "freeze" -> IF SignFirst THEN "sign" ELSE "move"
                [] pc[p] = "sign" -> "move"
                [] OTHER -> "idle"
  IN
  /\ AtCommit(p) /\ ~Refused(p)
  /\ log' = Append(log, entry)
  /\ over' = (over \/ (Moves(p) /\ Note(log) # Note(Prefix(me[p].began))))
  /\ unsigned' = (unsigned \/ (Moves(p) /\ me[p].signs /\ ~Signed(log, entry.version)))
  /\ IF next = "idle" THEN End(p)
     ELSE me' = [me EXCEPT ![p].version = entry.version] /\ Goto(p, next)
  /\ UNCHANGED <<manifest, runs>>

CManifest ==  \* whoever committed writes it, at any time after, or dies
  /\ Readers # {} /\ manifest # log /\ manifest' = log
  /\ UNCHANGED <<log, over, unsigned, pc, me, runs>>

CEarly(p) ==  \* only without the rule
  /\ ~ManifestLast /\ AtCommit(p) /\ ~Refused(p)
  /\ manifest' = Append(log, Drafted(p))
  /\ UNCHANGED <<log, over, unsigned, pc, me, runs>>

-----------------------------------------------------------------------------
RRead(p) ==  \* the manifest, and then the entries that it does not tell of
  /\ pc[p] = "idle"
  /\ me' = [me EXCEPT ![p].began = Len(log), ![p].tells =
       Named(manifest \o SubSeq(log, Len(manifest) + 1, Len(log)))]
  /\ Goto(p, "read")
  /\ UNCHANGED <<log, manifest, over, unsigned, runs>>

Next ==
  \/ \E p \in Movers : MRead(p)
  \/ \E p \in Deleters : DRead(p)
  \/ \E p \in Freezers : FMake(p) \/ FFind(p) \/ FMove(p)
  \/ \E p \in Writers : CRefuse(p) \/ CCommit(p) \/ CEarly(p)
  \/ CManifest
  \/ \E p \in Readers : RRead(p)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

PointersNameVersions == ByLog(log) # 0 => ByLog(log) \in There(log)
PointersAreAsTheLog == Named(log) = ByLog(log)
NoMoveIsLost == ~over
SignersPointAtSigned == ~unsigned
ReadersSeeCommitted ==
  \A p \in Readers : pc[p] = "read" => me[p].tells = ByLog(Prefix(me[p].began))

LiveSpec == Spec /\ \A p \in Writers : WF_vars(FMove(p) \/ CRefuse(p) \/ CCommit(p))
MovesEnd == \A p \in Writers : pc[p] # "idle" ~> pc[p] = "idle"

Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..4 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "a version is deleted that a pointer was about to name",
       \E p \in Movers : pc[p] = "point" /\ me[p].version \in Gone(log))
  /\ Reached(2, "a pointer came to a version that was about to be deleted",
       \E p \in Deleters : pc[p] = "delete" /\ me[p].version = Named(log))
  /\ Reached(3, "a pointer moved since a freeze began that found a version",
       \E p \in Freezers : pc[p] = "move" /\ Note(log) # Note(Prefix(me[p].began)))
  /\ Reached(4, "a pointer was removed from a version that is deleted",
       /\ MovesIn(log) # {} /\ ByLog(log) = 0
       /\ NotedWith(log, Last(MovesIn(log))) \in Gone(log)
       /\ \E i \in MovesIn(log) : NotedWith(log, i) \notin Gone(log))

Symmetry == Permutations(Movers) \cup Permutations(Deleters) \cup Permutations(Freezers)
=============================================================================
