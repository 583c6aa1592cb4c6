-- Room on each page for new versions of its rows: every flush updates the rows of the day, and a row whose new version stays on
-- its page needs no new entry in the index. A flush of 10,000 keys took 0.5 to 0.7 times as long (bench/usage.mjs).
ALTER TABLE "api_key_usage" SET (fillfactor = 70);
