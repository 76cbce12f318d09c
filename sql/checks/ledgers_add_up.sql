-- One row per step whose ledger is not recorded ranks x step time, or has a part below zero that is not skew.
--
-- run         VARCHAR  Run.
-- step        BIGINT   Number of the step.
-- whole_ns    BIGINT   Recorded ranks x step time.
-- parts_ns    BIGINT   The sum of the ledger's parts; NULL without any.
-- least_ns    BIGINT   The smallest part but skew.
-- share_ratio DOUBLE   The sum of the shares.
--
-- Scope: check
WITH ledgers AS (
    SELECT
        run AS ledger_run,
        step AS ledger_step,
        sum(device_ns)::BIGINT AS parts_ns,
        min(device_ns) FILTER (part <> 'skew') AS least_ns,
        sum(share_ratio) AS share_ratio
    FROM step_ledger
    GROUP BY run, step
)

SELECT
    steps.run,
    steps.step,
    steps.n_ranks * steps.duration_ns AS whole_ns,
    ledgers.parts_ns,
    ledgers.least_ns,
    ledgers.share_ratio
FROM steps
LEFT JOIN ledgers ON steps.run = ledgers.ledger_run AND steps.step = ledgers.ledger_step
WHERE steps.duration_ns IS NOT NULL
    AND (
        ledgers.parts_ns IS DISTINCT FROM steps.n_ranks * steps.duration_ns
        OR ledgers.least_ns < 0
        OR abs(ledgers.share_ratio - 1) > 1e-9
    )
