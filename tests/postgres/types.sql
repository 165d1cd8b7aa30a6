-- What all schemas of a source database share.
create extension hstore;
create extension citext;
create type mood as enum ('sad', 'it''s ok', 'happy');
create type address as (street text, number integer);
