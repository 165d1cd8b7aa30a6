------------------------------- MODULE Index -------------------------------
(***************************************************************************)
(* One index of a table: makers write a file and then the marker that      *)
(* names it, readers read by the marker, vacuums delete the marker and     *)
(* then the file.  No log entry speaks of an index: its marker plays that  *)
(* part.  Makers and readers hold a lease on the table.                    *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Makers, Readers, Vacuums, None,
  FilesBeforeMarker, MarkerDeletedFirst, LeasesListedLast, MakersHoldLeases, MarkerReadAgain,
  FilesLookedFor

VARIABLES
  files,   \* whose files are there; a maker's file has a name of its own
  marker,  \* the maker whose file the marker names
  leases,  \* who has one
  slept,   \* whose lease a vacuum took away because it stood still
  pc, reads, going, hold

vars == <<files, marker, leases, slept, pc, reads, going, hold>>
Leased == Makers \cup Readers
Procs == Leased \cup Vacuums

Init ==
  /\ files = {} /\ marker = None /\ leases = {} /\ slept = {}
  /\ pc = [p \in Procs |-> "idle"]
  /\ reads = [r \in Readers |-> None]
  /\ going = [v \in Vacuums |-> {}]
  /\ hold = [v \in Vacuums |-> {}]

Goto(p, place) == pc' = [pc EXCEPT ![p] = place]

Lease(p) ==
  /\ p \in Leased /\ pc[p] = "idle"
  /\ leases' = IF p \in Readers \/ MakersHoldLeases THEN leases \cup {p} ELSE leases
  /\ Goto(p, "leased")
  /\ UNCHANGED <<files, marker, slept, reads, going, hold>>

Release(p) ==
  /\ pc[p] \in {"made", "read"}
  /\ leases' = leases \ {p}
  /\ reads' = [r \in Readers |-> IF r = p THEN None ELSE reads[r]]
  /\ Goto(p, "done")
  /\ UNCHANGED <<files, marker, slept, going, hold>>

Expires(p, v) ==
  /\ pc[v] = "waiting" /\ p \in hold[v] \cap leases
  /\ leases' = leases \ {p} /\ slept' = slept \cup {p}
  /\ UNCHANGED <<files, marker, pc, reads, going, hold>>

-----------------------------------------------------------------------------
Sound == marker # None /\ (FilesLookedFor => marker \in files)

MWrite(m) ==
  /\ pc[m] = "leased" /\ FilesBeforeMarker
  /\ files' = files \cup {m} /\ Goto(m, "written")
  /\ UNCHANGED <<marker, leases, slept, reads, going, hold>>

MMark(m) ==
  /\ pc[m] = (IF FilesBeforeMarker THEN "written" ELSE "leased")
  /\ ~Sound
  /\ marker' = m
  /\ Goto(m, IF FilesBeforeMarker THEN "made" ELSE "marked")
  /\ UNCHANGED <<files, leases, slept, reads, going, hold>>

MWriteLate(m) ==  \* only without the rule
  /\ pc[m] = "marked"
  /\ files' = files \cup {m} /\ Goto(m, "made")
  /\ UNCHANGED <<marker, leases, slept, reads, going, hold>>

MTakeTheirs(m) ==  \* another was sooner
  /\ pc[m] = "written" /\ Sound
  /\ files' = files \ {m} /\ Goto(m, "made")
  /\ UNCHANGED <<marker, leases, slept, reads, going, hold>>

RLoad(r) ==
  /\ r \in Readers /\ pc[r] = "leased" /\ Sound
  /\ reads' = [reads EXCEPT ![r] = IF marker \in files THEN marker ELSE "nothing"]
  /\ Goto(r, "read")
  /\ UNCHANGED <<files, marker, leases, slept, going, hold>>

-----------------------------------------------------------------------------
\* No version needs the index, or it does, and only what the marker does not name is to go.
VPlan(v) ==
  /\ pc[v] = "idle"
  /\ \E needed \in BOOLEAN :
       /\ going' = [going EXCEPT ![v] = IF needed THEN files \ {marker} ELSE files]
       /\ Goto(v, IF needed THEN "unmarked" ELSE "planned")
  /\ hold' = [hold EXCEPT ![v] = IF LeasesListedLast THEN {} ELSE leases]
  /\ UNCHANGED <<files, marker, leases, slept, reads>>

VDeleteMarker(v) ==
  /\ pc[v] = "planned"
  /\ marker' = IF MarkerDeletedFirst THEN None ELSE marker
  /\ Goto(v, "unmarked")
  /\ UNCHANGED <<files, leases, slept, reads, going, hold>>

VListLeases(v) ==
  /\ pc[v] = "unmarked"
  /\ hold' = [hold EXCEPT ![v] = IF LeasesListedLast THEN leases ELSE @]
  /\ Goto(v, "waiting")
  /\ UNCHANGED <<files, marker, leases, slept, reads, going>>

VReadMarker(v) ==
  /\ pc[v] = "waiting" /\ hold[v] \cap leases = {}
  /\ going' = [going EXCEPT ![v] = IF MarkerReadAgain /\ MarkerDeletedFirst THEN @ \ {marker} ELSE @]
  /\ hold' = [hold EXCEPT ![v] = {}]
  /\ Goto(v, "deleting")
  /\ UNCHANGED <<files, marker, leases, slept, reads>>

VDelete(v) ==
  /\ pc[v] = "deleting"
  /\ files' = files \ going[v]
  /\ going' = [going EXCEPT ![v] = {}]
  /\ Goto(v, "done")
  /\ UNCHANGED <<marker, leases, slept, reads, hold>>

Next ==
  \/ \E p \in Leased : Lease(p) \/ Release(p)
  \/ \E p \in Leased, v \in Vacuums : Expires(p, v)
  \/ \E m \in Makers : MWrite(m) \/ MMark(m) \/ MWriteLate(m) \/ MTakeTheirs(m)
  \/ \E r \in Readers : RLoad(r)
  \/ \E v \in Vacuums :
       VPlan(v) \/ VDeleteMarker(v) \/ VListLeases(v) \/ VReadMarker(v) \/ VDelete(v)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold *)

\* A maker that slept past its lease may mark what a vacuum has deleted; who loads it sees that.
MarkerImpliesItsFiles == marker = None \/ marker \in files \cup slept
LiveReadersKeepTheirIndex ==
  \A r \in Readers \ slept : reads[r] \in Makers \ slept => reads[r] \in files
NobodyTrustsAnEmptyMarker == \A r \in Readers : reads[r] # "nothing"

Symmetry == Permutations(Makers) \cup Permutations(Readers) \cup Permutations(Vacuums)
=============================================================================
