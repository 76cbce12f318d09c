-- One row per part of the ledger, in its order: device time of the run's steps.
--
-- place         INTEGER  Order, from 1.
-- part          VARCHAR  As in step_ledger.
-- device_ns     BIGINT   Over all steps; below 0 where skew is.
-- share_ratio   DOUBLE   Of all devices' time.
-- start_ratio   DOUBLE   Where its bar begins: the shares before it.
-- end_ratio     DOUBLE   Where it ends.
-- size_place    BIGINT   Place by size among the parts but the model's, from 1; the model's comes last.
--
-- How: parts without time are left out, but for the model's. Parameters: $run.
WITH parts AS (
    SELECT
        min(place) AS place,
        part,
        sum(device_ns)::BIGINT AS device_ns
    FROM step_ledger
    WHERE run = $run AND share_ratio IS NOT NULL
    GROUP BY part
),

shares AS (
    SELECT
        *,
        device_ns / nullif(sum(device_ns) OVER (), 0) AS share_ratio
    FROM parts
)

SELECT
    place,
    part,
    device_ns,
    share_ratio,
    coalesce(sum(share_ratio) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS start_ratio,
    sum(share_ratio) OVER (ORDER BY place) AS end_ratio,
    row_number() OVER (ORDER BY part = 'model', share_ratio DESC, place) AS size_place
FROM shares
WHERE device_ns <> 0 OR part = 'model'
ORDER BY place
