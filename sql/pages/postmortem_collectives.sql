-- One row per rank of a collective of a step: when the rank came, beside the collective as a whole.
--
-- place          BIGINT   Place of the collective among those shown, in order of time, from 1.
-- op             VARCHAR  Operation.
-- group_id       VARCHAR  Process group.
-- seq            BIGINT   As in collective_instances.
-- n_bytes        BIGINT   Bytes; NULL where sizes are not recorded.
-- n_ranks        INTEGER  Members of the group.
-- n_present      INTEGER  Members recorded in it.
-- first_ns       BIGINT   First arrival, from the step's start.
-- last_ns        BIGINT   Last arrival.
-- skew_ns        BIGINT   Between them.
-- last_rank      INTEGER  Rank that came last.
-- transfer_ns    BIGINT   From the last arrival to the median end.
-- exposed_ns     BIGINT   The longest that any rank had nothing to hide it behind.
-- verdict        VARCHAR  ok, or the reasons to doubt it.
-- rank           INTEGER  Rank.
-- arrival_ns     BIGINT   Its arrival, from the step's start.
-- behind_ns      BIGINT   Its arrival, from the first.
-- wait_ns        BIGINT   How long it waited for the last.
-- is_last        BOOLEAN  Whether it came last.
-- n_collectives  BIGINT   Collectives of the step.
-- all_skew_ns    BIGINT   All their skews together.
-- shown_skew_ns  BIGINT   Those of the collectives shown.
-- n_members      BIGINT   Ranks that came to it.
--
-- How: the $max_rows collectives with the longest skew, and of each the $max_ranks ranks that came last and first. Those launched
-- in no step belong to the step in whose time they end to arrive. Nothing where clocks are not aligned. Parameters: $run, $step,
-- $max_rows, $max_ranks.
WITH chosen AS (
    SELECT
        start_ns AS step_start_ns,
        end_ns AS step_end_ns
    FROM steps
    WHERE run = $run AND step = $step::BIGINT AND start_ns IS NOT NULL
),

held AS (
    SELECT
        met.*,
        chosen.step_start_ns,
        row_number() OVER (
            ORDER BY met.skew_ns DESC, met.last_arrival_ns, met.group_id, met.seq, met.shape
        ) AS skew_place,
        count(*) OVER () AS n_collectives,
        sum(met.skew_ns) OVER () AS all_skew_ns
    FROM collective_instances AS met
    CROSS JOIN chosen
    WHERE met.run = $run
        AND met.last_arrival_ns IS NOT NULL
        AND (
            met.step = $step::BIGINT
            OR (met.step IS NULL AND met.last_arrival_ns BETWEEN chosen.step_start_ns AND chosen.step_end_ns)
        )
),

shown AS (
    SELECT
        *,
        row_number() OVER (ORDER BY last_arrival_ns, group_id, seq, shape, skew_place) AS place
    FROM held
    WHERE skew_place <= $max_rows
),

arrivals AS (
    SELECT
        rank AS arrival_rank,
        group_id AS arrival_group,
        seq AS arrival_seq,
        shape AS arrival_shape,
        activity_no,
        arrival_ns,
        wait_ns,
        exposed_ns
    FROM collectives
    WHERE run = $run AND (step IS NULL OR step BETWEEN $step::BIGINT - 1 AND $step::BIGINT + 1)
),

met_ranks AS (
    SELECT
        shown.*,
        arrivals.arrival_rank,
        arrivals.arrival_ns,
        arrivals.wait_ns,
        arrivals.exposed_ns AS rank_exposed_ns
    FROM arrivals
    JOIN shown
        ON arrivals.arrival_group = shown.group_id
        AND arrivals.arrival_seq IS NOT DISTINCT FROM shown.seq
        AND arrivals.arrival_shape = shown.shape
        AND arrivals.arrival_ns BETWEEN shown.first_arrival_ns AND shown.last_arrival_ns
    QUALIFY row_number() OVER (
        PARTITION BY arrivals.arrival_rank, arrivals.activity_no ORDER BY abs(arrivals.arrival_ns - shown.last_arrival_ns), shown.place
    ) = 1
),

ranked AS (
    SELECT
        *,
        max(rank_exposed_ns) OVER of_one AS exposed_ns,
        count(*) OVER of_one AS n_members,
        row_number() OVER (PARTITION BY place ORDER BY arrival_ns DESC, arrival_rank) AS from_last,
        row_number() OVER (PARTITION BY place ORDER BY arrival_ns, arrival_rank) AS from_first
    FROM met_ranks
    WINDOW of_one AS (PARTITION BY place)
)

SELECT
    place,
    op,
    group_id,
    seq,
    n_bytes,
    n_ranks,
    n_present,
    first_arrival_ns - step_start_ns AS first_ns,
    last_arrival_ns - step_start_ns AS last_ns,
    skew_ns,
    last_rank,
    transfer_ns,
    exposed_ns,
    verdict,
    arrival_rank AS rank,
    arrival_ns - step_start_ns AS arrival_ns,
    arrival_ns - first_arrival_ns AS behind_ns,
    wait_ns,
    arrival_rank = last_rank AS is_last,
    n_collectives,
    all_skew_ns::BIGINT AS all_skew_ns,
    (SELECT sum(skew_ns) FROM shown)::BIGINT AS shown_skew_ns,
    n_members
FROM ranked
WHERE from_last <= $max_ranks - 1 OR from_first = 1
ORDER BY place, arrival_ns, arrival_rank
