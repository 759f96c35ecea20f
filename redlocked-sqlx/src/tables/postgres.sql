CREATE TABLE IF NOT EXISTS redlocked_fences (
    name text PRIMARY KEY,
    fence bigint NOT NULL
);
