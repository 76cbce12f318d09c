-- One row per rank that collectives tie to others: its clock against the lowest rank it is tied to.
--
-- rank      INTEGER  Rank.
-- clock_no  INTEGER  Lowest rank it is tied to, over any number of groups.
-- offset_ns DOUBLE   aligned x = x - (offset + drift * x), x from the reference.
-- drift     DOUBLE   Its drift.
--
-- Scope: clock
-- How: breadth first over ranks and the groups they share, from the lowest rank of each connected part: a member's clock
-- follows from that of any other member whose clock is known, through the group's lowest rank. Larger groups go first.
WITH RECURSIVE tied (rank, clock_no) USING KEY (rank) AS (
    SELECT
        rank,
        min(rank) AS clock_no
    FROM _member_fits
    GROUP BY rank
    UNION
    SELECT
        fits.rank,
        min(tied.clock_no)
    FROM tied
    JOIN _member_fits AS theirs ON tied.rank = theirs.rank
    JOIN _member_fits AS fits ON theirs.group_id = fits.group_id
    JOIN recurring.tied AS known ON fits.rank = known.rank
    WHERE tied.clock_no < known.clock_no
    GROUP BY fits.rank
),

sizes AS (
    SELECT
        group_id AS sized_group,
        count(*) AS n_members
    FROM _member_fits
    GROUP BY group_id
),

clocks (rank, clock_no, offset_ns, drift) USING KEY (rank) AS (
    SELECT
        rank,
        clock_no,
        0::DOUBLE AS offset_ns,
        0::DOUBLE AS drift
    FROM tied
    WHERE rank = clock_no
    UNION
    SELECT
        rank,
        clock_no,
        offset_ns,
        drift
    FROM (
        SELECT
            fits.rank,
            clocks.clock_no,
            clocks.offset_ns - (1 - clocks.drift) * (theirs.shift_ns - fits.shift_ns) / (1 - theirs.slope) AS offset_ns,
            1 - (1 - clocks.drift) * (1 - fits.slope) / (1 - theirs.slope) AS drift,
            row_number() OVER (PARTITION BY fits.rank ORDER BY sizes.n_members DESC, fits.group_id, clocks.rank) AS place
        FROM clocks
        JOIN _member_fits AS theirs ON clocks.rank = theirs.rank
        JOIN _member_fits AS fits ON theirs.group_id = fits.group_id
        JOIN sizes ON fits.group_id = sizes.sized_group
        WHERE fits.rank NOT IN (SELECT known.rank FROM recurring.clocks AS known)
    )
    WHERE place = 1
)

SELECT
    rank,
    clock_no,
    offset_ns,
    drift
FROM clocks
