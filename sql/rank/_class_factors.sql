-- One row per scenario, class of activities, kind: by what its time is multiplied; only where that is not 1.
--
-- scenario INTEGER  Scenario.
-- class_no BIGINT   As in _activity_classes.
-- kind     VARCHAR  compute, comm, copy, launch, turnaround or unknown: an activity, or the lag before one.
-- factor   DOUBLE   Product of the changes that name it.
--
-- Scope: graph
-- How: a change that names no kind is one of work, so it leaves the lags between activities alone.
WITH classes AS (
    SELECT DISTINCT
        class_no,
        name,
        phase
    FROM _activity_classes
),

kinds AS (
    SELECT unnest(['compute', 'comm', 'copy', 'launch', 'turnaround', 'unknown']) AS kind
)

SELECT
    changes.scenario,
    classes.class_no,
    kinds.kind,
    product(changes.factor) AS factor
FROM changes
JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
CROSS JOIN kinds
CROSS JOIN classes
WHERE changes.what = 'scale'
    AND changes.group_id IS NULL
    AND kinds.kind = ANY(CASE WHEN changes.kind IS NULL THEN ['compute', 'comm', 'copy'] ELSE [changes.kind] END)
    AND (changes.phase IS NULL OR changes.phase = classes.phase)
    AND (changes.pattern IS NULL OR regexp_matches(classes.name, changes.pattern))
GROUP BY changes.scenario, classes.class_no, kinds.kind
HAVING product(changes.factor) <> 1
