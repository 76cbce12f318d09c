-- One row per call of a host thread into the driver, and per record of a synchronisation.
--
-- dump_no             BIGINT   Which of the rank's dumps.
-- thread              BIGINT   Host thread; of a synchronisation's record whatever the dump has there, which may be its stream.
-- start_ns            BIGINT   Start, on the rank's own clock.
-- end_ns              BIGINT   End; NULL where it did not finish.
-- name                VARCHAR  Of a blocking call its name; else NULL.
-- what                VARCHAR  synchronise, copy or allocate of a blocking call, record of an event's record, wait of a stream's
--     wait for an event, sync of another synchronisation's record; NULL of any other call.
-- correlation_id      BIGINT   Joins a call to its record.
-- stream              BIGINT   Of a record, the stream that waits or is waited for.
-- wait_stream         BIGINT   Of a record, the stream whose event is waited for.
-- wait_correlation_id BIGINT   Of a record, the call that recorded that event.
--
-- Scope: rank
SELECT
    events.dump_no,
    events.thread,
    events.start_ns,
    events.start_ns + events.duration_ns AS end_ns,
    CASE WHEN events.category <> 'sync' AND blocking_calls.what IS NOT NULL THEN events.name END AS name,
    CASE
        WHEN events.category = 'sync' AND events.name = 'Stream Wait Event' THEN 'wait'
        WHEN events.category = 'sync' THEN 'sync'
        WHEN blocking_calls.what IS NOT NULL THEN blocking_calls.what
        WHEN contains(events.name, 'EventRecord') THEN 'record'
    END AS what,
    events.correlation_id,
    events.stream,
    events.wait_stream,
    events.wait_correlation_id
FROM events
LEFT JOIN blocking_calls ON events.name = blocking_calls.name
WHERE events.category IN ('runtime', 'driver', 'sync')
