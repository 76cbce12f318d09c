-- One row per scenario, activity of a lane: what it takes and how long it lags behind each thing it may wait for.
--
-- scenario     INTEGER  Scenario.
-- activity_no  BIGINT   The activity.
-- dump_no      BIGINT   Which of the rank's dumps.
-- lane         BIGINT   Stream; without a device the thread.
-- before_no    BIGINT   Activity before it on its lane.
-- wait_no      BIGINT   Activity of another stream that it waited for.
-- is_comm      BOOLEAN  Whether it is a collective.
-- is_tied      BOOLEAN  Whether the one before is a collective still running: tied to its start.
-- segment_no   BIGINT   Host segment of its launch; NULL without one.
-- since_ns     BIGINT   Host time of its launch since that segment's start.
-- work_ns      BIGINT   Its duration.
-- launch_ns    BIGINT   Lag behind its launch; NULL without one.
-- stream_ns    BIGINT   Lag behind the end of the one before, or where is_tied its start; NULL for the first of a lane.
-- wait_ns      BIGINT   Lag behind the end of the one it waited for; NULL where it waited for none.
--
-- Scope: graph
-- How: with a rank at the median an activity takes no longer than its like on the median rank, and follows its launch within
-- what is usual: a host that stalls inside the call shows as a long lag.
WITH at_median AS (
    SELECT DISTINCT changes.scenario
    FROM changes
    JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
    WHERE changes.what = 'fix' AND (changes.kind IS NULL OR changes.kind = 'host')
),

fixed AS (
    SELECT
        changes.scenario,
        elements.activity_no,
        min(medians.device_ns) AS device_ns
    FROM changes
    JOIN context ON changes.rank IS NULL OR changes.rank = context.rank
    CROSS JOIN _elements AS elements
    JOIN element_medians AS medians
        ON elements.step = medians.step AND elements.name = medians.name AND elements.place = medians.place
    WHERE changes.what = 'fix'
        AND (changes.kind IS NULL OR changes.kind = 'compute')
        AND medians.device_ns < elements.device_ns
    GROUP BY changes.scenario, elements.activity_no
),

costed AS (
    SELECT
        scenarios.scenario,
        activities.activity_no,
        activities.dump_no,
        activities.lane,
        activities.before_no,
        activities.wait_no,
        activities.precedence = 1 AS is_comm,
        activities.is_behind,
        activities.before_is_comm,
        activities.host_ns,
        round(
            coalesce(fixed.device_ns, activities.end_ns - activities.start_ns) * coalesce(own.factor, 1)
        )::BIGINT AS work_ns,
        CASE
            WHEN at_median.scenario IS NOT NULL AND activities.launch_lag_ns > activities.usual_launch_ns
                THEN round(activities.usual_launch_ns * coalesce(launches.factor, 1))::BIGINT
            WHEN activities.launch_lag_ns > 0 THEN round(activities.launch_lag_ns * coalesce(launches.factor, 1))::BIGINT
            ELSE activities.launch_lag_ns
        END AS launch_ns,
        CASE
            WHEN at_median.scenario IS NOT NULL
                AND activities.is_behind
                AND activities.stream_kind = 'launch'
                AND activities.stream_lag_ns > activities.usual_launch_ns
                THEN round(activities.usual_launch_ns * coalesce(streams.factor, 1))::BIGINT
            WHEN activities.is_behind AND activities.stream_lag_ns > 0
                THEN round(activities.stream_lag_ns * coalesce(streams.factor, 1))::BIGINT
            ELSE activities.stream_lag_ns
        END AS stream_ns,
        CASE
            WHEN activities.wait_lag_ns > 0 THEN round(activities.wait_lag_ns * coalesce(waits.factor, 1))::BIGINT
            ELSE activities.wait_lag_ns
        END AS wait_ns
    FROM _graph_activities AS activities
    CROSS JOIN scenarios
    JOIN _activity_classes AS classes ON activities.activity_no = classes.activity_no
    LEFT JOIN fixed ON activities.activity_no = fixed.activity_no AND scenarios.scenario = fixed.scenario
    LEFT JOIN at_median ON scenarios.scenario = at_median.scenario
    LEFT JOIN _class_factors AS own
        ON classes.class_no = own.class_no
        AND scenarios.scenario = own.scenario
        AND own.kind = CASE activities.precedence WHEN 0 THEN 'compute' WHEN 1 THEN 'comm' ELSE 'copy' END
    LEFT JOIN _class_factors AS launches
        ON classes.class_no = launches.class_no AND scenarios.scenario = launches.scenario AND launches.kind = 'launch'
    LEFT JOIN _class_factors AS streams
        ON classes.class_no = streams.class_no
        AND scenarios.scenario = streams.scenario
        AND streams.kind = activities.stream_kind
    LEFT JOIN _class_factors AS waits
        ON classes.class_no = waits.class_no AND scenarios.scenario = waits.scenario AND waits.kind = activities.wait_kind
)

SELECT
    costed.scenario,
    costed.activity_no,
    costed.dump_no,
    costed.lane,
    costed.before_no,
    costed.wait_no,
    costed.is_comm,
    NOT costed.is_behind AND costed.before_is_comm AS is_tied,
    hosts.segment_no,
    hosts.since_ns,
    costed.work_ns,
    costed.launch_ns,
    CASE
        WHEN costed.is_behind OR costed.before_is_comm THEN costed.stream_ns
        ELSE costed.stream_ns - befores.work_ns
    END AS stream_ns,
    costed.wait_ns
FROM costed
LEFT JOIN costed AS befores
    ON NOT costed.is_behind
    AND NOT costed.before_is_comm
    AND costed.before_no = befores.activity_no
    AND costed.scenario = befores.scenario
LEFT JOIN _host_times AS hosts
    ON hosts.launches
    AND costed.scenario = hosts.scenario
    AND costed.dump_no = hosts.dump_no
    AND costed.host_ns = hosts.own_ns
