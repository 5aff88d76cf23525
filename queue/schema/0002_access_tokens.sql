-- What a list shows of a token's secret, and until when the token is good.
alter table tokens add column prefix text not null default '';
alter table tokens add column expires_at integer;
-- Who asked, from where, and for what: actor is the name of the token, or what
-- stood in the place of one when token is null.
alter table audit add column token integer;
alter table audit add column remote text not null default '';
alter table audit add column target text not null default '';
alter table audit add column count integer not null default 1;
