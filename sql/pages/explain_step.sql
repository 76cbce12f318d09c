-- One row: which step is explained, and how far to trust its path.
--
-- step              BIGINT   The step; NULL where the run has no such step, or none whose length is known.
-- is_slowest        BOOLEAN  Whether no step of the run took longer.
-- n_steps           BIGINT   Steps of the run.
-- first_step        BIGINT   The first; NULL without any.
-- last_step         BIGINT   The last; NULL without any.
-- n_timed_steps     BIGINT   Steps whose length is known.
-- start_ns          BIGINT   Its start, on the run's clock; NULL: clocks not aligned.
-- end_ns            BIGINT   Its end.
-- duration_ns       BIGINT   The step time; NULL: clocks not aligned.
-- end_rank          INTEGER  Rank that completed it last, where the path ends.
-- end_margin_ns     BIGINT   By how much, over the next rank; NULL with one rank.
-- is_margin_clear   BOOLEAN  Whether that is more than three residuals of the clocks; NULL with one rank.
-- n_ranks           INTEGER  Ranks that recorded it.
-- n_path_ranks      BIGINT   Ranks that the path goes through.
-- n_segments        BIGINT   Segments of the path; 0: it has none.
-- path_ns           BIGINT   Their time together.
-- verdict           VARCHAR  The step's: ok, or the reasons to doubt it.
-- residual_ns       BIGINT   Largest residual of the ranks' clocks; NULL where nothing is fitted.
-- peer_ns           BIGINT   Time in collectives with a member that is not recorded.
-- peer_ratio        DOUBLE   Its share of the step.
-- n_peer_segments   BIGINT   Such segments.
-- no_event_ns       BIGINT   Host time in which the dump shows no event.
-- no_event_ratio    DOUBLE   Its share of the step.
-- unknown_ns        BIGINT   Time that nothing in the dump explains.
-- unknown_ratio     DOUBLE   Its share of the step.
--
-- How: without a step the slowest, the first of equals. Parameters: $run, $step.
WITH known AS (
    SELECT
        *,
        coalesce(duration_ns = max(duration_ns) OVER (), FALSE) AS is_slowest
    FROM steps
    WHERE run = $run
),

counted AS (
    SELECT
        count(*) AS n_steps,
        min(step) AS first_step,
        max(step) AS last_step,
        count(duration_ns) AS n_timed_steps,
        min(step) FILTER (is_slowest) AS slowest
    FROM known
),

chosen AS (
    SELECT known.*
    FROM known
    CROSS JOIN counted
    WHERE known.step = coalesce($step::BIGINT, counted.slowest)
),

path AS (
    SELECT
        count(*) AS n_segments,
        count(DISTINCT rank) AS n_path_ranks,
        coalesce(sum(duration_ns), 0)::BIGINT AS path_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'comm' AND verdict <> 'ok'), 0)::BIGINT AS peer_ns,
        count(*) FILTER (kind = 'comm' AND verdict <> 'ok') AS n_peer_segments,
        coalesce(sum(duration_ns) FILTER (kind = 'host' AND name = '(no event)'), 0)::BIGINT AS no_event_ns,
        coalesce(sum(duration_ns) FILTER (kind = 'unknown'), 0)::BIGINT AS unknown_ns
    FROM step_critical_path
    WHERE run = $run AND step = (SELECT chosen.step FROM chosen)
),

clocks AS (
    SELECT max(residual_ns) AS residual_ns
    FROM rank_clocks
    WHERE run = $run
)

SELECT
    chosen.step,
    chosen.is_slowest,
    counted.n_steps,
    counted.first_step,
    counted.last_step,
    counted.n_timed_steps,
    chosen.start_ns,
    chosen.end_ns,
    chosen.duration_ns,
    chosen.end_rank,
    chosen.end_margin_ns,
    chosen.end_margin_ns > 3 * coalesce(clocks.residual_ns, 0) AS is_margin_clear,
    chosen.n_ranks,
    path.n_path_ranks,
    path.n_segments,
    path.path_ns,
    chosen.verdict,
    clocks.residual_ns,
    path.peer_ns,
    path.peer_ns / chosen.duration_ns AS peer_ratio,
    path.n_peer_segments,
    path.no_event_ns,
    path.no_event_ns / chosen.duration_ns AS no_event_ratio,
    path.unknown_ns,
    path.unknown_ns / chosen.duration_ns AS unknown_ratio
FROM counted
LEFT JOIN chosen ON TRUE
CROSS JOIN path
CROSS JOIN clocks
