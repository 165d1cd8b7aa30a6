-- Values for which some tap says one thing in its SCHEMA and another in its RECORDs.
create domain positive as integer check (value > 0);
create table of_domain (id integer primary key, v positive);
insert into of_domain values (1, 5);
create table number_of_object (id integer primary key, v oid);
insert into number_of_object values (1, 4000000000);
create table grid (id integer primary key, v integer[]);
insert into grid values (1, '{{1,2},{3,4}}');
create table holes (id integer primary key, v integer[]);
insert into holes values (1, '{1,NULL}');
create table without_end (id integer primary key, v numeric);
insert into without_end values (1, 'Infinity');
create table scalars (id integer primary key, v jsonb);
insert into scalars values (1, '1'), (2, '"text"'), (3, 'null'), (4, '{"n": 1e400}');
create table tiny (id integer primary key, v numeric);
insert into tiny values (1, 1e-50);

-- And values that are odd, but put out as their SCHEMA says, or left out.
create table not_a_number (id integer primary key, v numeric(20, 6), w float8);
insert into not_a_number values (1, 'NaN', 'Infinity');
create table for_ever (id integer primary key, v timestamptz, w date, x time);
insert into for_ever values (1, 'infinity', 'infinity', '24:00'), (2, '-infinity', null, null);
