-- One row per record of a rank's flight recorder: a collective or a transfer that it enqueued, and how far that came.
--
-- rank              INTEGER    Rank.
-- record_id         BIGINT     Number of the record, from 0 where none were overwritten.
-- group_id          VARCHAR    Name of the process group.
-- group_description VARCHAR    What the program calls the group; NULL where it does not.
-- group_ranks       VARCHAR    Members of the group as runs, 0-7 or 1-7:2 for every second; NULL where the dump does not list them.
-- seq               BIGINT     Number among the group's collectives on this rank, from 1; NULL for a transfer between two ranks.
-- p2p_seq           BIGINT     Number among the group's transfers on this rank; NULL where the dump does not say.
-- op_id             BIGINT     Number among all that was enqueued in the group.
-- op                VARCHAR    What it does: all_reduce, barrier, send 0->1; unnamed where the dump does not say.
-- backend           VARCHAR    Library: nccl, gloo.
-- is_p2p            BOOLEAN    Whether it is a transfer between two ranks.
-- input_sizes       VARCHAR    Shape of each input: [[1000],[4,25]]; NULL where it is too long.
-- input_dtypes      VARCHAR    Their types; one that all have stands once.
-- input_elements    BIGINT     Elements of all inputs.
-- output_sizes      VARCHAR    Shape of each output.
-- output_dtypes     VARCHAR    Their types.
-- output_elements   BIGINT     Elements of all outputs.
-- state             VARCHAR    As the dump says: scheduled, started, completed.
-- is_retired        BOOLEAN    Whether the recorder no longer looks after it.
-- is_complete       BOOLEAN    Whether it ended on this rank.
-- created_ns        BIGINT     When it was enqueued, on the rank's own clock.
-- started_ns        BIGINT     When it was found started; NULL where it was not.
-- completed_ns      BIGINT     When it was found completed; NULL where it was not.
-- duration_ns       BIGINT     What it took on the device; NULL unless timing was switched on (TORCH_NCCL_ENABLE_TIMING).
-- timeout_ns        BIGINT     After how long the library gives up.
-- frame             VARCHAR    Innermost line of the program that is not PyTorch's own: train.py:12 step.
--
-- Scope: flight
-- How: gloo records neither start nor end, only that it is done with a record. NCCL is also done with one that timed
-- out, so there the state decides. On one rank a group's collectives end in order: one before a complete one is complete.
-- Calls made as one are followed by a record named coalesced, which alone knows their end.
WITH named AS (
    SELECT
        *,
        (SELECT rank FROM context) AS rank,
        nullif(split_part(name, ':', 1), name) AS backend,
        coalesce(CASE WHEN contains(name, ':') THEN substr(name, strpos(name, ':') + 1) ELSE name END, 'unnamed') AS op,
        coalesce(is_p2p, regexp_matches(name, '(^|:)(send|recv) \d+(->|<-)\d+$'), FALSE) AS is_transfer,
        CASE WHEN created_ns BETWEEN 0 AND last_ns THEN created_ns END AS enqueued_ns,
        CASE WHEN started_ns BETWEEN 1 AND last_ns THEN started_ns END AS start_ns,
        CASE WHEN completed_ns BETWEEN 1 AND last_ns THEN completed_ns END AS end_ns,
        CASE WHEN collective_seq BETWEEN 0 AND most THEN collective_seq END AS number
    FROM raw_flight
    CROSS JOIN (
        SELECT
            (longest_epoch_s * 1e9)::BIGINT AS last_ns,
            largest_step AS most,
            longest_event_ns / 1e6 AS longest_ms
        FROM params
    ) AS bounds
),

judged AS (
    SELECT
        *,
        bool_or(state <> 'scheduled' OR start_ns IS NOT NULL OR end_ns IS NOT NULL)
            OVER (PARTITION BY backend) AS records_states
    FROM named
),

ended AS (
    SELECT
        *,
        coalesce(
            state = 'completed' OR end_ns IS NOT NULL
            OR (is_retired AND backend IS DISTINCT FROM 'nccl' AND NOT records_states),
            FALSE
        ) AS has_ended
    FROM judged
)

SELECT
    rank,
    record_id,
    group_id,
    group_description,
    group_ranks,
    CASE WHEN NOT is_transfer THEN number END AS seq,
    CASE WHEN is_transfer THEN p2p_seq END AS p2p_seq,
    op_id,
    op,
    backend,
    is_transfer AS is_p2p,
    input_sizes,
    input_dtypes,
    TRY_CAST(
        list_sum(
            list_transform(
                TRY_CAST(input_sizes AS BIGINT[][]), lambda dims: coalesce(TRY_CAST(list_product(dims) AS BIGINT), 1)
            )
        ) AS BIGINT
    ) AS input_elements,
    output_sizes,
    output_dtypes,
    TRY_CAST(
        list_sum(
            list_transform(
                TRY_CAST(output_sizes AS BIGINT[][]), lambda dims: coalesce(TRY_CAST(list_product(dims) AS BIGINT), 1)
            )
        ) AS BIGINT
    ) AS output_elements,
    state,
    is_retired,
    has_ended
    OR coalesce(
        bool_or(has_ended AND op = 'coalesced') OVER (
            PARTITION BY group_id, is_transfer, CASE WHEN is_transfer THEN p2p_seq ELSE number END
        ),
        FALSE
    )
    OR coalesce(
        NOT is_transfer
        AND number < max(number) FILTER (has_ended AND NOT is_transfer) OVER (PARTITION BY group_id),
        FALSE
    ) AS is_complete,
    enqueued_ns AS created_ns,
    start_ns AS started_ns,
    end_ns AS completed_ns,
    CASE WHEN duration_ms BETWEEN 0 AND longest_ms THEN round(duration_ms * 1e6)::BIGINT END AS duration_ns,
    TRY(timeout_ms * (1e6)::BIGINT) AS timeout_ns,
    frame
FROM ended
