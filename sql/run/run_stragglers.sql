-- One row per rank that a step was waiting for: how late it was, why, and what it costs.
--
-- rank             INTEGER  Rank.
-- host             VARCHAR  Its host; NULL unknown.
-- n_steps          BIGINT   Steps of the run in which lateness is known.
-- n_straggler      BIGINT   Of them, those whose straggler it is.
-- share_last_ratio DOUBLE   n_straggler by n_steps.
-- late_ns          BIGINT   How late it was in those.
-- late_ratio       DOUBLE   Of the time of all those steps.
-- lost_gpu_hours   DOUBLE   late_ns times the ranks that waited: all others recorded; those of a link wait too. Those of a link or a
--     stage have equal shares of it.
-- cause            VARCHAR  What most of late_ns is put down to, as in straggler_ranks.
-- cause_ns         BIGINT   What it spent on that beyond the others, over all steps.
-- cause_ratio      DOUBLE   Share of late_ns with that cause.
-- place            VARCHAR  Link or stage, as in step_stragglers, where it is late with others; NULL for other causes.
-- is_persistent    BOOLEAN  Whether it is the straggler of at least half of the steps, and of more than one.
-- pattern          VARCHAR  persistent; periodic: at even distances; transient.
-- saved_ns         BIGINT   Mean step time that is saved with the rank at the median of all ranks, of a stage with all its
--     ranks, in the steps recorded; below 0 what is lost. NULL where no what-if was made: see verdict.
-- slowdown_ratio   DOUBLE   What they took, by what they would take then: what the rank costs the run. NULL as above.
-- verdict          VARCHAR  ok, or the reasons to doubt the row, joined by "; ".
--
-- Scope: priced
-- Order: rank
-- How: late_ns is evidence, not cost: another chain may take over once the rank is in time, and what one step saves may be
-- paid in the next. Ranks that are no step's straggler are not here.
SELECT
    late.rank,
    late.host,
    late.n_steps,
    late.n_straggler,
    late.share_last_ratio,
    late.late_ns,
    late.late_ratio,
    late.lost_gpu_hours,
    late.cause,
    late.cause_ns,
    late.cause_ratio,
    late.place,
    late.is_persistent,
    late.pattern,
    costs.duration_ns - costs.base_ns AS saved_ns,
    costs.value_ratio AS slowdown_ratio,
    concat_ws(
        '; ',
        CASE WHEN late.verdict <> 'ok' OR costs.group_key IS NOT NULL THEN late.verdict END,
        CASE
            WHEN late.cause = 'link' THEN 'cost n/a: a rank at the median keeps its link'
            WHEN costs.group_key IS NULL THEN 'cost n/a: longpole whatif RUN --stragglers predicts it'
        END
    ) AS verdict
FROM straggler_ranks AS late
LEFT JOIN run_whatif AS costs
    ON costs.measure = 'fix' AND late.cause <> 'link' AND coalesce(late.place, late.rank::VARCHAR) = costs.group_key
