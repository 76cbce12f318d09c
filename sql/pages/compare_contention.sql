-- One row per kernel that ran beside comm in either of two runs: a call beside comm and alone, the largest changes first.
--
-- name                   VARCHAR  Kernel; on the host an operator.
-- baseline_beside_ns     BIGINT   Mean call beside comm in the baseline; NULL where there is none.
-- baseline_alone_ns      BIGINT   Mean call alone; NULL where there is none.
-- baseline_contention_ns BIGINT   What calls beside comm took longer than their like alone, in the median step of the mean rank.
-- beside_ns              BIGINT   As above, of the run.
-- alone_ns               BIGINT   As above, of the run.
-- contention_ns          BIGINT   As above, of the run.
-- change_ns              BIGINT   Change of it.
-- noise_ns               BIGINT   As in run_changes.
-- verdict                VARCHAR  As in run_changes.
-- n_names                BIGINT   Kernels that ran beside comm in either.
--
-- How: parameters: $run, $baseline, $max_items.
WITH means AS (
    SELECT
        run,
        name,
        round(sum(beside_ns) / nullif(sum(n_beside), 0))::BIGINT AS beside_ns,
        round(sum(alone_ns) / nullif(sum(n_alone), 0))::BIGINT AS alone_ns
    FROM kernel_contention
    WHERE run IN ($baseline, $run) AND step IS NOT NULL
    GROUP BY run, name
)

SELECT
    changes.item AS name,
    olds.beside_ns AS baseline_beside_ns,
    olds.alone_ns AS baseline_alone_ns,
    changes.baseline_ns AS baseline_contention_ns,
    news.beside_ns,
    news.alone_ns,
    changes.value_ns AS contention_ns,
    changes.change_ns,
    changes.noise_ns,
    changes.verdict,
    count(*) OVER () AS n_names
FROM run_changes AS changes
LEFT JOIN (FROM means WHERE run = $baseline) AS olds ON changes.item = olds.name
LEFT JOIN (FROM means WHERE run = $run) AS news ON changes.item = news.name
WHERE changes.baseline = $baseline AND changes.run = $run AND changes.dimension = 'contention'
ORDER BY abs(changes.change_ns) DESC, changes.item
LIMIT $max_items
