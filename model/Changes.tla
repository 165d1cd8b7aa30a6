------------------------------ MODULE Changes ------------------------------
(***************************************************************************)
(* What a change set does to rows, while others change rows, too, and the  *)
(* table is dropped, brought back or begun anew under it.  A person looks  *)
(* at rows and asks for others in their place; a change is worked out on   *)
(* the state that is there by then, and only what differs is committed, on *)
(* top of whatever came in between, as long as that was of other rows.     *)
(*                                                                         *)
(* Files are left out: Lake is about them, of drops as well.               *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS
  Keys, Values, Changers,
  Nothing, None,    \* the value of a row that is not there; nobody
  MaxSyncs, MaxDrops,
  Attempts,         \* how often a change is worked out
  RowLock, CompareOnCommit, AllAsked, OwnRowsOnly, SameTable, SameTableAgain,
  VersionOfWhatIsLeft

VARIABLES
  log,   \* of each entry, the rows that it leaves and which entry wrote each
  pc,
  ask,   \* of each changer the values that its rows are to have, and whether it relies on what they were
  look,  \* the entry at which a person looked at the rows
  began, \* the one that the change was worked out on first
  view,  \* the one that it was worked out on last
  tries

vars == <<log, pc, ask, look, began, view, tries>>

-----------------------------------------------------------------------------
Last == Len(log)
Now == log[Last]
Count(op) == Cardinality({n \in 1..Last : log[n].op = op})
Goto(c, place) == pc' = [pc EXCEPT ![c] = place]
NoRows == [k \in Keys |-> Nothing]
NoAsk == [rows |-> <<>>, blind |-> FALSE]
Asked(c) == DOMAIN ask[c].rows
Laid(new, old) == [k \in Keys |-> IF k \in DOMAIN new THEN new[k] ELSE old[k]]

\* While a table is dropped the entry keeps what an undrop brings back.
Entry(op) == [Now EXCEPT !.op = op, !.who = None, !.wrote = {}, !.of = 0]
Written(op, new) ==
  LET n == Last + 1
      old == IF Now.there THEN Now.rows ELSE NoRows
      at == IF Now.there THEN Now.at ELSE [k \in Keys |-> 0]
  IN [Entry(op) EXCEPT
       !.rows = Laid(new, old), !.at = Laid([k \in DOMAIN new |-> n], at), !.wrote = DOMAIN new,
       !.there = TRUE, !.first = IF Now.there THEN @ ELSE n]

Init ==
  /\ \E k \in Keys, v \in Values :
       log = <<[op |-> "sync", who |-> None, wrote |-> {k}, rows |-> Laid(k :> v, NoRows),
                at |-> Laid(k :> 1, [x \in Keys |-> 0]), there |-> TRUE, first |-> 1,
                of |-> 0, said |-> NoRows]>>
  /\ pc = [c \in Changers |-> "idle"]
  /\ ask = [c \in Changers |-> NoAsk]
  /\ look = [c \in Changers |-> 0]
  /\ began = [c \in Changers |-> 0]
  /\ view = [c \in Changers |-> 0]
  /\ tries = [c \in Changers |-> 0]

-----------------------------------------------------------------------------
Others == UNCHANGED <<pc, ask, look, began, view, tries>>

Sync ==  \* a tap asks nobody
  /\ Count("sync") <= MaxSyncs
  /\ \E k \in Keys, v \in Values \cup {Nothing} : log' = Append(log, Written("sync", k :> v))
  /\ Others
Drop ==
  /\ Now.there /\ Count("drop") < MaxDrops
  /\ log' = Append(log, [Entry("drop") EXCEPT !.there = FALSE])
  /\ Others
Undrop ==
  /\ ~Now.there
  /\ log' = Append(log, [Entry("undrop") EXCEPT !.there = TRUE])
  /\ Others

-----------------------------------------------------------------------------
CLook(c) ==
  /\ pc[c] = "idle" /\ Now.there
  /\ \E some \in SUBSET Keys \ {{}}, blind \in BOOLEAN :
       \E rows \in [some -> Values \cup {Nothing}] :
         ask' = [ask EXCEPT ![c] = [rows |-> rows, blind |-> blind]]
  /\ look' = [look EXCEPT ![c] = Last]
  /\ Goto(c, "looked")
  /\ UNCHANGED <<log, began, view, tries>>

Stale(c) == RowLock /\ ~ask[c].blind /\ \E k \in Asked(c) : Now.at[k] # log[look[c]].at[k]
Differs(c, n) == {k \in Asked(c) : log[n].rows[k] # ask[c].rows[k]}

Other(n) == \E i \in (n + 1)..Last : log[i].op = "drop"

CPlan(c) ==
  /\ pc[c] = "looked"
  /\ began' = [began EXCEPT ![c] = IF tries[c] = 0 THEN Last ELSE @]
  /\ view' = [view EXCEPT ![c] = Last]
  /\ tries' = [tries EXCEPT ![c] = @ + 1]
  /\ Goto(c, IF ~Now.there \/ Stale(c) \/ (SameTableAgain /\ tries[c] > 0 /\ Other(view[c]))
             THEN "refused"
             ELSE IF Differs(c, Last) = {} THEN "done"
             ELSE "planned")
  /\ UNCHANGED <<log, ask, look>>

Own(c) == IF AllAsked THEN Asked(c) ELSE Differs(c, view[c])
Since(c, n) == UNION {log[i].wrote : i \in (n + 1)..Last}
Overtaken(c) ==
  CompareOnCommit /\ Since(c, view[c]) \cap (IF OwnRowsOnly THEN Own(c) ELSE Keys) # {}

COvertaken(c) ==
  /\ pc[c] = "planned" /\ Overtaken(c)
  /\ Goto(c, IF tries[c] < Attempts THEN "looked" ELSE "refused")
  /\ UNCHANGED <<log, ask, look, began, view, tries>>

CConflict(c) ==
  /\ pc[c] = "planned" /\ ~Overtaken(c) /\ SameTable /\ Other(view[c])
  /\ Goto(c, "refused")
  /\ UNCHANGED <<log, ask, look, began, view, tries>>

CCommit(c) ==
  LET new == [k \in Differs(c, view[c]) |-> ask[c].rows[k]]
      entry == Written("change", new)
  IN
  /\ pc[c] = "planned" /\ ~Overtaken(c) /\ ~(SameTable /\ Other(view[c]))
  /\ log' = Append(log, [entry EXCEPT
       !.who = c, !.of = began[c],
       !.said = IF VersionOfWhatIsLeft THEN entry.rows ELSE Laid(new, log[view[c]].rows)])
  /\ Goto(c, "done")
  /\ UNCHANGED <<ask, look, began, view, tries>>

Next ==
  \/ Sync \/ Drop \/ Undrop
  \/ \E c \in Changers : CLook(c) \/ CPlan(c) \/ COvertaken(c) \/ CConflict(c) \/ CCommit(c)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold; each entry is the last once *)

IsChange == Now.op = "change"
ChangedAsAsked == IsChange => \A k \in Asked(Now.who) : Now.rows[k] = ask[Now.who].rows[k]
LockedRowsAsRead ==
  IsChange /\ ~ask[Now.who].blind =>
    \A k \in Asked(Now.who) : log[Last - 1].at[k] = log[look[Now.who]].at[k]
VersionsAreOfTheirState == IsChange => Now.said = Now.rows
ChangesAreOfTheirTable == IsChange => Now.first <= Now.of
\* So changes of different rows are not in each other's way.
RefusedForAReason ==
  \A c \in Changers : pc[c] = "refused" =>
    Other(look[c]) \/ Since(c, look[c]) \cap Asked(c) # {}

LiveSpec == Spec /\ \A c \in Changers : WF_vars(CPlan(c) \/ COvertaken(c) \/ CConflict(c) \/ CCommit(c))
ChangesEnd == \A c \in Changers : pc[c] = "looked" ~> pc[c] \in {"done", "refused"}

Reached(n, what, holds) ==
  holds => (TLCGet(n) \/ (TLCSet(n, TRUE) /\ PrintT(<<"reached", what>>)))
ASSUME \A n \in 1..3 : TLCSet(n, FALSE)
AllIsReached ==
  /\ Reached(1, "others have changed rows beside those of a change",
       \E c \in Changers : pc[c] = "planned" /\ ~Overtaken(c) /\ Since(c, view[c]) # {})
  /\ Reached(2, "a change that was overtaken is committed",
       IsChange /\ tries[Now.who] > 1)
  /\ Reached(3, "a change was worked out on a table, and is refused by another",
       \E c \in Changers : pc[c] = "refused" /\ Now.there /\ Now.first > look[c])

Symmetry == Permutations(Keys) \cup Permutations(Values) \cup Permutations(Changers)
=============================================================================
