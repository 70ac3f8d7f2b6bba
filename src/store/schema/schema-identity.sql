-- The store's number: kept layers bear it, so that they are never taken for another's.

CREATE TABLE identity (number INTEGER NOT NULL) STRICT;
INSERT INTO identity (number) VALUES ((random() & 0x7fffffffffffffff) | 1);
