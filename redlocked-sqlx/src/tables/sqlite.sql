CREATE TABLE IF NOT EXISTS redlocked_fences (
    name text NOT NULL PRIMARY KEY,
    fence integer NOT NULL
);
