CREATE TABLE IF NOT EXISTS redlocked_fences (
    name varbinary(1024) NOT NULL PRIMARY KEY,
    fence bigint NOT NULL
) ENGINE = InnoDB;
