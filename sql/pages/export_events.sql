-- One row per event of a rank in a slice of the range of steps, on the run's clock, in order of start, the longer first.
--
-- start_ns       BIGINT   Start, on the run's clock.
-- end_ns         BIGINT   End, on the run's clock.
-- category       VARCHAR  As in events.
-- kind           VARCHAR  compute, comm or copy; NULL for all else.
-- name           VARCHAR  As the dump spells it.
-- step           BIGINT   As in events.
-- is_device      BOOLEAN  Whether it lies on a stream.
-- device         INTEGER  Device.
-- stream         BIGINT   Stream.
-- process        BIGINT   Process.
-- thread         BIGINT   Thread.
-- label          VARCHAR  The process or thread where the dump gives text.
-- correlation_id BIGINT   Joins a call to the device work it launched.
-- comm_op        VARCHAR  Collective, from metadata.
-- comm_group     VARCHAR  Process group, from metadata.
-- n_bytes        BIGINT   Bytes of a copy or a fill.
--
-- How: events of the steps and of no step that start from $from_ns to before $to_ns, on the rank's own clock. Python
-- frames, memory records and the profiler's own spans are no work, and what did not finish or took more than a week has no
-- end. Start and end are aligned each by itself, so what nests still nests. Parameters: $run, $rank, $first_step,
-- $last_step, $from_ns, $to_ns, $with_host.
SELECT
    aligned_ns(events.start_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns) AS start_ns,
    aligned_ns(
        events.start_ns + events.duration_ns, coalesce(clocks.offset_ns, 0), clocks.drift_ppb, clocks.reference_ns
    ) AS end_ns,
    events.category,
    events.kind,
    events.name,
    events.step,
    events.category IN ('kernel', 'memcpy', 'memset', 'sync', 'gpu_annotation') AS is_device,
    events.device,
    events.stream,
    events.process,
    events.thread,
    events.label,
    events.correlation_id,
    events.comm_op,
    events.comm_group,
    events.n_bytes
FROM events
LEFT JOIN rank_clocks AS clocks ON clocks.run = $run AND clocks.rank = $rank::INTEGER
WHERE events.run = $run
    AND events.rank = $rank::INTEGER
    AND events.start_ns >= $from_ns
    AND events.start_ns < $to_ns
    AND events.duration_ns BETWEEN 0 AND epoch_ns(INTERVAL 7 DAY)
    AND (events.step IS NULL OR events.step BETWEEN $first_step AND $last_step)
    AND events.category NOT IN ('python', 'memory', 'trace', 'overhead')
    AND events.row_id IS NOT NULL
    AND ($with_host::BOOLEAN OR events.category IN ('kernel', 'memcpy', 'memset', 'sync', 'gpu_annotation'))
ORDER BY events.start_ns, events.duration_ns DESC, events.row_id
