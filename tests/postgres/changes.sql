-- What happens to the source between the two syncs: rows changed, gone and come, a new column.

-- One digit and nothing else: as a double, the table is what it was.
update pennies set amount = 12345678901234.123457 where id = 1;

update every_type set exact = exact + 1e-6, changed = '2024-02-01Z' where id = 1;
update every_type set docb = '{"new": 1}', words = 'other', changed = '2024-02-01Z' where id = 2;
update every_type set any_exact = any_exact + 1e-18, at_stamp = at_stamp + '1 us', raw = '\x01',
    changed = '2024-02-01Z' where id = 3;
delete from every_type where id = 4;
insert into every_type (id, counted, changed, whole_list) values (5, 1, '2024-02-01Z', '{5}');

-- The last of 18 digits, in every line of an order; the same double before and after.
update lines set amount = amount + 1e-6, changed = '2024-02-01Z' where "order" = 7;
delete from lines where "order" = 8;
alter table lines add column note text;
insert into lines values (21, 1, '2024-02-01Z', 9999999999999.999999, 'new');

update no_key set amount = 12345678901234.123457, changed = '2024-02-01Z' where word = 'once';
delete from no_key where word is null;
insert into no_key values ('2024-02-01Z', 'twice', 1);

insert into empty values (1, '2024-02-01Z', 'no longer');
update "Order Lines" set "größe" = 'größer', "Unit Price" = 10, changed = '2024-02-01Z'
where "Id" = 1;
delete from "Order Lines" where "Id" = 2;
update "select" set "from" = 'having', changed = '2024-02-01Z';
insert into "naïve.tåble / 日本" values (3, '2024-02-01Z', 'drei');
update "a ""quoted"", one" set word = 'two', changed = '2024-02-01Z';
