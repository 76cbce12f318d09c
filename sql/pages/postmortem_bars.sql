-- One row per bar of a rank's lanes in a step: long events alone, short ones together.
--
-- lane_no       BIGINT   Place of the lane on the rank, from 0, from the top.
-- lane          VARCHAR  stream N or thread N.
-- shows         VARCHAR  ranges (outermost annotations), calls (outermost operators and calls) or work (of a stream).
-- kind          VARCHAR  compute, comm, wait (the part of a collective before its last rank came), copy, call or range.
-- offset_ns     BIGINT   Start of the first event, from the start of the step, no less than 0.
-- end_ns        BIGINT   End of the last, no more than the step's length.
-- busy_ns       BIGINT   Time its events cover, each nanosecond of the lane once.
-- n_events      BIGINT   Events in it; a collective counts with its transfer, where it has one.
-- shortest_ns   BIGINT   The shortest, as far as it lies in the step.
-- longest_ns    BIGINT   The longest.
-- name          VARCHAR  Its name.
-- n_lane_events BIGINT   Events of the lane.
-- n_lanes       BIGINT   Lanes that the rank has: streams with work, threads with operators or calls.
-- n_all_events  BIGINT   Events of the rank in the step, of all lanes, nested ones too.
--
-- How: events that overlap the step in time, of whatever step they are; on the host the outermost of each thread, without ranges
-- that hold all the step. An event of a bin or more, one of $n_bins of the step, is a bar by itself; shorter ones of one kind that
-- start in one bin are one. Shown are up to $max_streams streams and $max_threads threads, each beyond the first busy or on the
-- critical path for a thousandth of the step: the thread with most calls, those on the path, then those with most work. What began before $read_ns is not seen. Times: own clock, aligned where
-- $start_ns, the step's start on the run's clock, is given, else from $from_ns. Parameters: $run, $rank, $step, $from_ns, $to_ns,
-- $read_ns, $start_ns, $length_ns, $n_bins, $max_streams, $max_threads.
WITH clock AS (
    SELECT
        coalesce(max(offset_ns) FILTER ($start_ns::BIGINT IS NOT NULL), 0) AS shift_ns,
        coalesce(max(drift_ppb) FILTER ($start_ns::BIGINT IS NOT NULL), 0) AS drift_ppb,
        coalesce(max(reference_ns) FILTER ($start_ns::BIGINT IS NOT NULL), 0) AS reference_ns,
        coalesce($start_ns::BIGINT, $from_ns::BIGINT) AS zero_ns
    FROM rank_clocks
    WHERE run = $run AND rank = $rank::INTEGER
),

aligned AS (
    SELECT
        events.row_id,
        events.name,
        events.category,
        events.kind,
        CASE
            WHEN events.category IN ('kernel', 'memcpy', 'memset')
                THEN coalesce('stream ' || events.stream, 'no stream')
            ELSE coalesce('thread ' || events.thread, 'no thread')
        END AS lane,
        CASE
            WHEN events.category IN ('kernel', 'memcpy', 'memset') THEN 'work'
            WHEN events.category = 'annotation' AND events.kind IS NULL THEN 'ranges'
            ELSE 'calls'
        END AS shows,
        aligned_ns(events.start_ns, clock.shift_ns, clock.drift_ppb, clock.reference_ns) AS arrival_ns,
        aligned_ns(events.start_ns + events.duration_ns, clock.shift_ns, clock.drift_ppb, clock.reference_ns) AS left_ns,
        clock.zero_ns
    FROM events
    CROSS JOIN clock
    WHERE events.run = $run
        AND events.rank = $rank::INTEGER
        AND events.start_ns >= $read_ns
        AND events.start_ns <= $to_ns
        AND events.duration_ns BETWEEN 1 AND epoch_ns(INTERVAL 7 DAY)
        AND events.category IN ('kernel', 'memcpy', 'memset', 'cpu_op', 'runtime', 'driver', 'annotation')
),

seen AS (
    SELECT
        *,
        greatest(arrival_ns - zero_ns, 0) AS offset_ns,
        least(left_ns - zero_ns, $length_ns::BIGINT) AS end_ns
    FROM aligned
    WHERE arrival_ns - zero_ns < $length_ns::BIGINT
        AND left_ns > zero_ns
        AND NOT (shows = 'ranges' AND arrival_ns <= zero_ns AND left_ns - zero_ns >= $length_ns::BIGINT)
),

covered AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY lane, shows ORDER BY offset_ns, end_ns DESC, row_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM seen
),

outer_events AS (
    SELECT
        *,
        greatest(0, end_ns - greatest(offset_ns, coalesce(before_ns, 0))) AS own_ns
    FROM covered
    WHERE shows = 'work' OR before_ns IS NULL OR offset_ns >= before_ns
),

on_path AS (
    SELECT
        lane AS path_lane,
        sum(duration_ns) AS path_ns
    FROM step_critical_path
    WHERE run = $run AND rank = $rank::INTEGER AND step = $step::BIGINT
    GROUP BY lane
),

counted AS (
    SELECT
        lane AS counted_lane,
        count(*) AS n_seen,
        count(*) FILTER (category IN ('runtime', 'driver')) AS n_calls
    FROM seen
    GROUP BY lane
),

lanes AS (
    SELECT
        outer_events.lane,
        outer_events.shows,
        count(*) AS n_lane_events,
        sum(outer_events.own_ns) AS lane_ns,
        coalesce(any_value(on_path.path_ns), 0) * 1000 >= $length_ns::BIGINT AS is_on_path,
        count(*) FILTER (outer_events.kind = 'compute') > 0 AS has_compute,
        any_value(counted.n_calls) AS n_calls,
        any_value(counted.n_seen) AS n_seen
    FROM outer_events
    JOIN counted ON outer_events.lane = counted.counted_lane
    LEFT JOIN on_path ON outer_events.lane = on_path.path_lane
    GROUP BY outer_events.lane, outer_events.shows
),

busy_threads AS (
    SELECT
        lane,
        bool_or(is_on_path) AS is_on_path,
        coalesce(sum(lane_ns) FILTER (shows = 'calls'), 0) AS lane_ns,
        row_number() OVER (ORDER BY max(n_calls) DESC, max(n_seen) DESC, lane) AS call_place
    FROM lanes
    WHERE shows <> 'work'
    GROUP BY lane
),

threads AS (
    SELECT
        lane,
        row_number() OVER (ORDER BY call_place = 1 DESC, is_on_path DESC, lane_ns DESC, lane) AS thread_no
    FROM busy_threads
),

streams AS (
    SELECT
        lane,
        row_number() OVER (ORDER BY is_on_path DESC, lane_ns DESC, lane) AS stream_no
    FROM lanes
    WHERE shows = 'work'
),

shown AS (
    SELECT
        lanes.*,
        row_number() OVER (
            ORDER BY
                threads.thread_no NULLS LAST,
                lanes.shows = 'ranges' DESC,
                lanes.has_compute DESC,
                length(lanes.lane),
                lanes.lane
        ) - 1 AS lane_no
    FROM lanes
    LEFT JOIN threads ON lanes.lane = threads.lane
    LEFT JOIN streams ON lanes.lane = streams.lane
    WHERE coalesce(threads.thread_no, streams.stream_no) = 1
        OR (
            coalesce(threads.thread_no, 1) <= $max_threads
            AND coalesce(streams.stream_no, 1) <= $max_streams
            AND lanes.shows <> 'ranges'
            AND (lanes.is_on_path OR lanes.lane_ns * 1000 >= $length_ns::BIGINT)
        )
),

waits AS (
    SELECT
        arrival_ns AS wait_arrival_ns,
        end_ns AS wait_left_ns,
        max(wait_ns) AS wait_ns
    FROM collectives
    WHERE run = $run
        AND rank = $rank::INTEGER
        AND $start_ns::BIGINT IS NOT NULL
        AND wait_ns > 0
        AND (step IS NULL OR step BETWEEN $step::BIGINT - 1 AND $step::BIGINT + 1)
    GROUP BY arrival_ns, end_ns
),

parted AS (
    SELECT
        shown.lane_no,
        outer_events.*,
        least(
            greatest(outer_events.arrival_ns - outer_events.zero_ns + coalesce(waits.wait_ns, 0), outer_events.offset_ns),
            outer_events.end_ns
        ) AS ready_ns
    FROM outer_events
    JOIN shown ON outer_events.lane = shown.lane AND outer_events.shows = shown.shows
    LEFT JOIN waits
        ON outer_events.kind = 'comm'
        AND outer_events.arrival_ns = waits.wait_arrival_ns
        AND outer_events.left_ns = waits.wait_left_ns
),

split AS (
    SELECT
        lane_no,
        coalesce(kind, CASE shows WHEN 'ranges' THEN 'range' ELSE 'call' END) AS kind,
        ready_ns AS offset_ns,
        end_ns,
        greatest(0, end_ns - greatest(ready_ns, coalesce(before_ns, 0))) AS own_ns,
        1 AS n_events,
        name,
        row_id
    FROM parted
    WHERE end_ns > ready_ns
    UNION ALL
    SELECT
        lane_no,
        'wait' AS kind,
        offset_ns,
        ready_ns AS end_ns,
        greatest(0, ready_ns - greatest(offset_ns, coalesce(before_ns, 0))) AS own_ns,
        CASE WHEN end_ns > ready_ns THEN 0 ELSE 1 END AS n_events,
        name,
        row_id
    FROM parted
    WHERE ready_ns > offset_ns
),

binned AS (
    SELECT
        *,
        CASE
            WHEN end_ns - offset_ns >= greatest(1, $length_ns::BIGINT // $n_bins) THEN row(row_id, NULL)
            ELSE row(NULL, offset_ns // greatest(1, $length_ns::BIGINT // $n_bins))
        END AS cell
    FROM split
),

bars AS (
    SELECT
        lane_no,
        kind,
        min(offset_ns) AS offset_ns,
        max(end_ns) AS end_ns,
        sum(own_ns)::BIGINT AS busy_ns,
        sum(n_events)::BIGINT AS n_events,
        min(end_ns - offset_ns) AS shortest_ns,
        max(end_ns - offset_ns) AS longest_ns,
        arg_max(name, (end_ns - offset_ns, -offset_ns, name)) AS name
    FROM binned
    GROUP BY lane_no, kind, cell
)

SELECT
    bars.lane_no,
    shown.lane,
    shown.shows,
    bars.kind,
    bars.offset_ns,
    bars.end_ns,
    bars.busy_ns,
    bars.n_events,
    bars.shortest_ns,
    bars.longest_ns,
    bars.name,
    shown.n_lane_events,
    (SELECT count(DISTINCT lane) FROM lanes WHERE shows <> 'ranges') AS n_lanes,
    (SELECT count(*) FROM seen) AS n_all_events
FROM bars
JOIN shown ON bars.lane_no = shown.lane_no
ORDER BY bars.lane_no, bars.offset_ns, bars.end_ns, bars.kind, bars.name
