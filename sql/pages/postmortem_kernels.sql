-- One row per kernel name that differs most between two steps.
--
-- name          VARCHAR  Name.
-- kind          VARCHAR  compute, comm or copy.
-- n_calls       BIGINT   Calls in the step, over all ranks.
-- n_other_calls BIGINT   Calls in the other.
-- this_ns       BIGINT   Time of the calls in the step, over all ranks; a collective's holds its wait.
-- other_ns      BIGINT   Time in the other.
-- change_ns     BIGINT   The first minus the second.
-- n_ranks       BIGINT   Ranks that recorded both steps; others are left out.
-- n_names       BIGINT   Names of the two steps.
-- n_changed     BIGINT   Of them, those whose time differs.
-- all_change_ns BIGINT   All changes together, without their signs.
--
-- How: Parameters: $run, $step, $other_step, $max_rows.
WITH both_steps AS (
    SELECT rank AS both_rank
    FROM rank_steps
    WHERE run = $run AND step IN ($step::BIGINT, $other_step::BIGINT)
    GROUP BY rank
    HAVING count(DISTINCT step) = 2
),

named AS (
    SELECT
        kernels.name,
        kernels.kind,
        coalesce(sum(kernels.n_calls) FILTER (kernels.step = $step::BIGINT), 0)::BIGINT AS n_calls,
        coalesce(sum(kernels.n_calls) FILTER (kernels.step = $other_step::BIGINT), 0)::BIGINT AS n_other_calls,
        coalesce(sum(kernels.total_ns) FILTER (kernels.step = $step::BIGINT), 0)::BIGINT AS this_ns,
        coalesce(sum(kernels.total_ns) FILTER (kernels.step = $other_step::BIGINT), 0)::BIGINT AS other_ns
    FROM kernels
    JOIN both_steps ON kernels.rank = both_steps.both_rank
    WHERE kernels.run = $run AND kernels.step IN ($step::BIGINT, $other_step::BIGINT)
    GROUP BY kernels.name, kernels.kind
)

SELECT
    name,
    kind,
    n_calls,
    n_other_calls,
    this_ns,
    other_ns,
    this_ns - other_ns AS change_ns,
    (SELECT count(*) FROM both_steps) AS n_ranks,
    count(*) OVER () AS n_names,
    count(*) FILTER (this_ns <> other_ns) OVER () AS n_changed,
    (sum(abs(this_ns - other_ns)) OVER ())::BIGINT AS all_change_ns
FROM named
ORDER BY abs(this_ns - other_ns) DESC, name, kind
LIMIT $max_rows
