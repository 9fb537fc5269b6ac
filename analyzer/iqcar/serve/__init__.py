"""Pages and a JSON API over folders of event logs.

found logs (:mod:`~iqcar.serve.listing`) → what each says at its start and end
(:mod:`~iqcar.serve.log_summary`) → analyses in processes of their own
(:mod:`~iqcar.serve.analyses`) → kept results (:mod:`~iqcar.serve.cache`) →
:mod:`~iqcar.serve.api` and
:mod:`~iqcar.serve.pages`, behind :mod:`~iqcar.serve.guard`.
"""
