-- One row per stretch of a step's critical path that lies on one rank, or in one collective.
--
-- step        BIGINT   Step.
-- piece_no    BIGINT   Place, from 0 at the end of the step backwards.
-- rank        INTEGER  Rank.
-- is_comm     BOOLEAN  Whether it is a collective, once all its members were there; else work of the rank alone.
-- activity_no BIGINT   The collective; of a rank's own work the collective whose start it led to, NULL for the step's completion.
-- start_ns    BIGINT   Start, aligned.
-- end_ns      BIGINT   End, not included.
-- is_matched  BOOLEAN  Of a collective, whether every member is recorded and on one clock: else its time may be a peer's.
--
-- Scope: steps
-- Order: step, piece_no
-- How: backwards from the last rank's completion. A rank's own chain leads to a collective (rank_chains), the collective to
-- its last arriver, that one's chain to the next; each piece ends where the one after it starts, so together they are the
-- step. A collective that did not end before the one it leads from, which wrong clocks can pretend, is not followed: the
-- rest of the step then is the rank's own.
WITH RECURSIVE chains AS MATERIALIZED (
    SELECT
        chains.rank AS chain_rank,
        chains.step AS chain_step,
        chains.activity_no AS chain_no,
        chains.root_no,
        aligned_ns(chains.root_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS root_ns
    FROM rank_chains AS chains
    JOIN rank_clocks AS clocks ON chains.rank = clocks.rank
    WHERE chains.activity_no IS NULL
        OR (chains.rank, chains.activity_no) IN (SELECT (to_rank, to_no) FROM _hand_overs)
),

completed AS (
    SELECT
        chain_rank AS root_rank,
        root_no
    FROM chains
    WHERE chain_no IS NULL
),

-- Every round of the walk goes over all links: first those that no path comes to are left out. A path comes to a link from
-- a step's completion or from another link, so what neither leads to can go, and then what only that led to, and again.
links_1 AS MATERIALIZED (
    SELECT
        overs.rank AS link_rank,
        overs.activity_no AS link_no,
        overs.to_rank,
        overs.to_no,
        overs.at_ns,
        overs.end_ns AS link_end_ns,
        overs.is_matched,
        chains.root_no AS next_no,
        chains.root_ns AS next_ns
    FROM _hand_overs AS overs
    LEFT JOIN chains ON overs.to_rank = chains.chain_rank AND overs.to_no = chains.chain_no
    WHERE (overs.rank, overs.activity_no) IN (SELECT (chain_rank, root_no) FROM chains)
),

links_2 AS MATERIALIZED (
    FROM links_1
    WHERE (link_rank, link_no) IN (
        SELECT (to_rank, next_no) FROM links_1 UNION ALL SELECT (root_rank, root_no) FROM completed
    )
),

links AS MATERIALIZED (
    FROM links_2
    WHERE (link_rank, link_no) IN (
        SELECT (to_rank, next_no) FROM links_2 UNION ALL SELECT (root_rank, root_no) FROM completed
    )
),

walked AS (
    SELECT
        steps.step,
        0::BIGINT AS place,
        steps.start_ns AS step_start_ns,
        steps.end_rank AS rank,
        NULL::BIGINT AS entry_no,
        steps.end_ns AS high_ns,
        NULL::INTEGER AS comm_rank,
        NULL::BIGINT AS comm_no,
        NULL::BIGINT AS comm_end_ns,
        NULL::BOOLEAN AS is_matched,
        chains.root_no,
        least(chains.root_ns, steps.end_ns) AS root_ns,
        NULL::BIGINT AS over_end_ns
    FROM steps
    LEFT JOIN chains ON steps.end_rank = chains.chain_rank AND steps.step = chains.chain_step
    WHERE steps.end_ns > steps.start_ns
    UNION ALL
    SELECT
        walked.step,
        walked.place + 1,
        walked.step_start_ns,
        links.to_rank AS rank,
        links.to_no AS entry_no,
        least(walked.root_ns, links.at_ns) AS high_ns,
        walked.rank AS comm_rank,
        walked.root_no AS comm_no,
        walked.root_ns AS comm_end_ns,
        links.is_matched,
        links.next_no AS root_no,
        least(links.next_ns, walked.root_ns, links.at_ns) AS root_ns,
        links.link_end_ns
    FROM walked
    JOIN links ON walked.rank = links.link_rank AND walked.root_no = links.link_no
    WHERE walked.root_ns > walked.step_start_ns
        AND (walked.over_end_ns IS NULL OR links.link_end_ns < walked.over_end_ns)
),

followed AS (
    SELECT
        *,
        lead(comm_end_ns) OVER (PARTITION BY step ORDER BY place) AS low_ns
    FROM walked
),

pieces AS (
    SELECT
        step,
        2 * place AS piece_no,
        rank,
        FALSE AS is_comm,
        entry_no AS activity_no,
        greatest(coalesce(low_ns, step_start_ns), step_start_ns) AS start_ns,
        high_ns AS end_ns,
        NULL::BOOLEAN AS is_matched
    FROM followed
    UNION ALL
    SELECT
        step,
        2 * place - 1 AS piece_no,
        comm_rank AS rank,
        TRUE AS is_comm,
        comm_no AS activity_no,
        greatest(high_ns, step_start_ns) AS start_ns,
        comm_end_ns AS end_ns,
        is_matched
    FROM followed
    WHERE comm_no IS NOT NULL
)

SELECT
    step,
    piece_no,
    rank,
    is_comm,
    activity_no,
    start_ns,
    end_ns,
    is_matched
FROM pieces
WHERE end_ns > start_ns
