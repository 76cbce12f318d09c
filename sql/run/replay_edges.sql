-- One row per edge of the run's dependency graph under a scenario.
--
-- scenario INTEGER  Scenario; 0 changes nothing.
-- source   BIGINT   Node it leads from; NULL where cost_ns is a time.
-- node     BIGINT   Node it leads to: those of rank_edges; below 0 the ends of steps, below -2^50 collectives.
-- cost_ns  BIGINT   Time from one to the other; of an edge without a source the time itself, aligned.
--
-- Scope: predict
-- How: a collective of which every member is recorded happens when the last member arrives; each leaves after the transfer,
-- earlier or later by what it was measured to. Any other takes its own duration. A rank that a scenario does not touch has
-- the edges of scenario 0.
WITH made AS (
    SELECT DISTINCT
        rank,
        scenario
    FROM rank_edges
),

chosen AS (
    SELECT
        scenarios.scenario,
        made.rank,
        max(made.scenario) AS made_scenario
    FROM scenarios
    JOIN made ON made.scenario IN (0, scenarios.scenario)
    GROUP BY scenarios.scenario, made.rank
),

edges AS (
    SELECT
        chosen.scenario,
        edges.* EXCLUDE (scenario)
    FROM rank_edges AS edges
    JOIN chosen ON edges.rank = chosen.rank AND edges.scenario = chosen.made_scenario
),

members AS (
    SELECT
        aligned.rank AS member_rank,
        aligned.activity_no AS member_no,
        instances.instance_no,
        instances.group_id,
        dense_rank() OVER (ORDER BY instances.shard_step, instances.instance_no) AS instance_place,
        instances.end_ns - instances.last_arrival_ns AS transfer_ns,
        aligned.end_ns - instances.end_ns AS late_ns
    FROM _aligned AS aligned
    JOIN _met_instances AS instances ON aligned.instance_no = instances.instance_no
    WHERE instances.is_matched
),

arrivals AS (
    SELECT
        edges.scenario,
        edges.rank,
        edges.node,
        any_value(edges.activity_no) AS activity_no,
        any_value(edges.work_ns) AS work_ns,
        any_value(edges.factor) AS factor
    FROM edges
    WHERE edges.activity_no IS NOT NULL
    GROUP BY edges.scenario, edges.rank, edges.node
),

met AS (
    SELECT
        arrivals.*,
        members.instance_no,
        members.instance_place,
        members.group_id,
        members.transfer_ns,
        members.late_ns,
        max(arrivals.factor) OVER (PARTITION BY arrivals.scenario, members.instance_no) AS shared_factor
    FROM arrivals
    LEFT JOIN members ON arrivals.rank = members.member_rank AND arrivals.activity_no = members.member_no
),

group_factors AS (
    SELECT
        scenario,
        group_id,
        product(factor) AS factor
    FROM changes
    WHERE what = 'scale' AND group_id IS NOT NULL
    GROUP BY scenario, group_id
),

on_path AS (
    SELECT
        pieces.step,
        pieces.rank,
        pieces.activity_no,
        members.instance_no,
        pieces.end_ns - pieces.start_ns AS piece_ns,
        coalesce(
            sum(pieces.end_ns - pieces.start_ns) OVER (
                PARTITION BY pieces.step ORDER BY pieces.piece_no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS later_ns
    FROM path_pieces AS pieces
    LEFT JOIN members ON pieces.rank = members.member_rank AND pieces.activity_no = members.member_no
    WHERE pieces.is_comm
),

cuts AS (
    SELECT
        changes.scenario AS cut_scenario,
        on_path.instance_no AS cut_instance,
        CASE WHEN on_path.instance_no IS NULL THEN on_path.rank END AS cut_rank,
        CASE WHEN on_path.instance_no IS NULL THEN on_path.activity_no END AS cut_no,
        sum(least(on_path.piece_ns, greatest(coalesce(changes.amount_ns, on_path.later_ns + on_path.piece_ns) - on_path.later_ns, 0)))::BIGINT
            AS cut_ns
    FROM changes
    CROSS JOIN on_path
    WHERE changes.what = 'exposed'
    GROUP BY changes.scenario, on_path.instance_no, cut_rank, cut_no
),

unwaited AS (
    SELECT DISTINCT scenario AS unwaited_scenario
    FROM changes
    WHERE what = 'waits'
),

collectives_met AS (
    SELECT
        met.scenario,
        met.node,
        met.instance_place,
        unwaited.unwaited_scenario IS NOT NULL AS is_unwaited,
        CASE
            WHEN met.instance_no IS NULL THEN greatest(met.work_ns - coalesce(own_cuts.cut_ns, 0), 0)
            WHEN met.transfer_ns > 0
                THEN
                    greatest(
                        round(met.transfer_ns * met.shared_factor * coalesce(group_factors.factor, 1))::BIGINT
                        - coalesce(cuts.cut_ns, 0),
                        0
                    )
                    + met.late_ns
            ELSE met.transfer_ns + met.late_ns
        END AS cost_ns
    FROM met
    LEFT JOIN group_factors ON met.scenario = group_factors.scenario AND met.group_id = group_factors.group_id
    LEFT JOIN cuts ON met.scenario = cuts.cut_scenario AND met.instance_no = cuts.cut_instance
    LEFT JOIN cuts AS own_cuts
        ON met.scenario = own_cuts.cut_scenario
        AND met.rank = own_cuts.cut_rank
        AND met.activity_no = own_cuts.cut_no
    LEFT JOIN unwaited ON met.scenario = unwaited.unwaited_scenario
),

step_places AS (
    SELECT
        step,
        row_number() OVER (ORDER BY step) AS place
    FROM steps
)

SELECT
    scenario,
    source,
    node,
    cost_ns
FROM edges
UNION ALL
SELECT
    scenario,
    node AS source,
    -(1::BIGINT << 50) - instance_place AS node,
    0 AS cost_ns
FROM collectives_met
WHERE instance_place IS NOT NULL AND NOT is_unwaited
UNION ALL
SELECT
    scenario,
    CASE WHEN instance_place IS NULL OR is_unwaited THEN node ELSE -(1::BIGINT << 50) - instance_place END AS source,
    node + (1::BIGINT << 38) AS node,
    cost_ns
FROM collectives_met
UNION ALL
SELECT DISTINCT
    edges.scenario,
    edges.node AS source,
    -step_places.place AS node,
    0 AS cost_ns
FROM edges
JOIN step_places ON edges.step = step_places.step
