-- What each key did on each UTC day. Requests without a valid key are in the row of the nil UUID, without their addresses.
-- There is no foreign key: it would lock each key for each write, a deleted key would fail the write of all others, and the
-- usage of a deleted key stays known until it is too old. The day comes first in the primary key: every write touches the rows
-- of one day, and a period of all keys, like the days to be removed, is one range.
CREATE TABLE "api_key_usage" (
    "key_id" UUID NOT NULL,
    "day" DATE NOT NULL,
    "admitted" BIGINT NOT NULL,
    "rejected" BIGINT NOT NULL,
    "banned" BIGINT NOT NULL,
    "lists" BIGINT NOT NULL,
    "cancels" BIGINT NOT NULL,
    "list_bytes" BIGINT NOT NULL,

    CONSTRAINT "api_key_usage_pkey" PRIMARY KEY ("day", "key_id")
);

-- Room on each page for new versions of its rows: every flush updates the rows of the day, and a row whose new version stays on
-- its page needs no new entry in the index. A flush of 10,000 keys took 0.5 to 0.7 times as long (bench/usage.mjs).
ALTER TABLE "api_key_usage" SET (fillfactor = 70);
