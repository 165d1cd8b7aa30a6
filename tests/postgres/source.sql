-- Tables of a source database, in the schema that search_path names, and their first rows.
-- Every table has `changed`, for INCREMENTAL.

create table every_type (
    id bigint primary key, changed timestamptz not null default '2024-01-01Z',
    small smallint, whole integer, big bigint, counted serial, real_ real, double_ double precision,
    exact numeric(20, 6), whole_exact numeric(12, 0), wide numeric(38, 18), any_exact numeric,
    paid money, words text, short varchar(40), padded char(6), folded citext,
    yes boolean, flag bit(1), bits bit(4), varbits varbit(9),
    day date, at_time time, at_timetz timetz, at_stamp timestamp, at_stamptz timestamptz,
    span interval, uid uuid, raw bytea, doc json, docb jsonb, pairs hstore,
    ip inet, net cidr, mac macaddr, feeling mood,
    whole_list integer[], words_list text[], stamps_list timestamptz[], exact_list numeric(10, 2)[],
    place point, within int4range, home address, page xml, search tsvector
);
insert into every_type values (
    1, '2024-01-01Z', 1, 2, 3, 4, 1.5, 2.5,
    12345678901234.123456, 123456789012, 12345678901234567890.123456789012345678,
    3.14159265358979323846264338327950288,
    12.34, 'words', 'short', 'ab', 'Folded', true, b'1', b'1010', b'101',
    '2024-02-29', '13:14:15', '13:14:15+02', '2024-02-29 13:14:15.123456',
    '2024-02-29 13:14:15.123456+02', '1 day 02:03:04',
    'c0ffee00-0000-4000-8000-000000000001', '\x00ff10', '{"a": 1, "b": [true, null]}',
    '{"z": 1.50, "a": {"b": "é"}}', 'k=>v, n=>NULL', '10.0.0.1/8', '10.0.0.0/8',
    '08:00:2b:01:02:03', 'happy', '{1,2,3}', '{a,"b c","d,e"}', '{2024-02-29 13:14:15.123456+02}',
    '{1.10,2.20}', '(1,2)', '[1,5)', '(High Street,7)', '<a>b</a>',
    to_tsvector('simple', 'a fat cat')
), (
    2, '2024-01-02Z', -32768, -2147483648, -9223372036854775808, 0, '-0', 1e-300,
    -12345678901234.123457, -1, 0.000000000000000001, 1e-20,
    -0.01, '', '', '', '', false, b'0', b'0000', b'',
    '0001-01-01', '00:00:00', '00:00:00-12', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00',
    '-1 year', '00000000-0000-0000-0000-000000000000', '', '[]', '{}', '', '::1', '::/0',
    '00:00:00:00:00:00', 'sad', '{}', '{}', '{}', '{}', '(0,0)', 'empty', '(,)', '', ''
), (
    3, '2024-01-03Z', 32767, 2147483647, 9223372036854775807, 2147483647, 3.4028235e38,
    1.7976931348623157e308,
    9999999999999.999999, 999999999999, 9999999999999999999.999999999999999999,
    123456789012345678901234567890.5, 92233720368547758.07,
    E'tab\t quote" back\\slash \u2028 emoji \U0001F600 e\u0301', 'naïve', 'abcdef', 'ÀÉ',
    true, b'1', b'1111', b'111111111', '9999-12-31', '23:59:59.999999', '23:59:59+00',
    '9999-12-31 23:59:59.998', '9999-12-31 23:59:59.998+00', '1000 years',
    'ffffffff-ffff-ffff-ffff-ffffffffffff', '\xdeadbeef',
    '{"n": 12345678901234567890, "f": 0.1}', '[1, "two", {"three": 3}]', '"a b"=>"c,d"',
    '2001:db8::1', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', 'it''s ok', '{2147483647,0}',
    '{"","NULL","\"\\"}', '{}', '{99999999.99}', '(-1.5,1e10)', '(,)', null, '<é/>', 'x:1A'
);
insert into every_type (id, counted) values (4, 1);  -- the rest is null

-- A composite key, and decimals that one double cannot tell apart.
create table lines (
    "order" bigint, line integer, changed timestamptz not null, amount numeric(20, 6) not null,
    primary key ("order", line)
);
insert into lines
select o, l, timestamptz '2024-01-01Z' + o * interval '1 min', 12345678901234.123456 + l * 1e-6
from generate_series(1, 20) as o, generate_series(1, 3) as l;

create table pennies (id integer primary key, changed timestamptz, amount numeric(20, 6));
insert into pennies values (1, '2024-01-01Z', 12345678901234.123456), (2, '2024-01-01Z', 1);

create table no_key (changed timestamptz default '2024-01-01Z', word text, amount numeric(20, 6));
alter table no_key replica identity full;  -- else its rows could not be updated under LOG_BASED
insert into no_key (word, amount) values ('twice', 1), ('twice', 1), (null, null), ('once', 1e-6);

create table empty (id integer primary key, changed timestamptz, name text);

create table "Order Lines" (
    "Id" integer primary key, changed timestamptz default '2024-01-01Z',
    "order" text, "Unit Price" numeric(12, 2), "größe" text, "a.b" integer, "say ""hi""" text,
    "it's" text, "100%" integer, "select" boolean, "semi;colon" text, "back\slash" text
);
insert into "Order Lines" values
(1, default, 'first', 9.99, 'groß', 1, 'hi', 'its', 100, true, ';', '\'),
(2, default, '', 0, '', 0, '', '', 0, false, '', '');

create table "select" (id integer primary key, changed timestamptz, "from" text);
insert into "select" values (1, '2024-01-01Z', 'where');
create table "naïve.tåble / 日本" (id integer primary key, changed timestamptz, word text);
insert into "naïve.tåble / 日本" values (1, '2024-01-01Z', 'ünïcødé'), (2, '2024-01-01Z', '語');
create table "a ""quoted"", one" (id integer primary key, changed timestamptz, word text);
insert into "a ""quoted"", one" values (1, '2024-01-01Z', 'one');
